"""Every metric is set by somebody, described for people, and counted as the library would."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.metrics import MetricWrapperBase

from argosy_runtime.metrics import METRICS, observe_counts

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "telemetry.md"
NAMES = [field.name for field in fields(METRICS)]


def row_of(metric: MetricWrapperBase) -> str:
    """A metric as a row of the page."""
    (family,) = metric.describe()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = ", ".join(metric._labelnames) or "-"
    return f"| `{name}` | {family.type} | {labels} | {family.documentation} |"


def test_every_metric_is_set_somewhere() -> None:
    """A metric that nobody sets would be an empty panel on somebody's dashboard."""
    code = "".join(
        path.read_text()
        for folder in ("libs", "services")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "metrics.py"
    )
    used = set(re.findall(r"METRICS\.(\w+)", code))

    assert [name for name in NAMES if name not in used] == []


def test_page_lists_every_metric_and_no_other() -> None:
    """The page is what people build dashboards from."""
    listed = [line for line in PAGE.read_text().splitlines() if line.startswith("| `argosy_")]

    assert listed == [row_of(getattr(METRICS, name)) for name in NAMES]


def test_dashboards_and_alerts_use_metrics_that_exist() -> None:
    """A renamed metric must not leave an alert behind that can never fire."""
    known: set[str] = set()
    for name in NAMES:
        (family,) = getattr(METRICS, name).describe()
        known |= {family.name, *(f"{family.name}_{suffix}" for suffix in ("total", "bucket", "sum", "count"))}
    files = [
        path for path in (ROOT / "deploy" / "observability").rglob("*") if path.suffix in {".json", ".yml", ".yaml"}
    ]
    used = {name for path in files for name in re.findall(r"\bargosy_[a-z_]+", path.read_text())}

    assert sorted(used - known) == []


def test_page_lists_every_span_that_the_code_makes() -> None:
    """A span's name is what people search for."""
    made: set[str] = set()
    for code in (path.read_text() for path in (ROOT / "services").rglob("*.py")):
        made.update(re.findall(r"\.begin(?:_call)?\(\s*\"([a-z.]+)\"", code))
        if ".begin(name," in code:  # names that are constants
            made.update(re.findall(r"^_[A-Z]+: Final = \"([a-z.]+)\"", code, flags=re.MULTILINE))

    assert made
    assert set(re.findall(r"^\| `(argosy\.[a-z.]+)`", PAGE.read_text(), flags=re.MULTILINE)) == {
        f"argosy.{name}" for name in made
    }


@pytest.mark.parametrize(
    "values",
    [[0.5, 1.0, 1.5], [2.0, 2.0, 99.0], [], [0.0]],
    ids=["between-and-on-bounds", "above-the-last", "none", "zero"],
)
def test_counted_observations_equal_single_ones(values: list[float]) -> None:
    """Counting at once gives the same buckets and sum as observing one by one."""
    registry = CollectorRegistry()
    at_once, singly = (Histogram(name, name, buckets=(1.0, 2.0), registry=registry) for name in ("a", "b"))
    distinct, counts = np.unique(np.array(values, dtype=np.float64), return_counts=True)

    observe_counts(at_once, distinct, counts)
    for one in values:
        singly.observe(one)

    def samples(name: str) -> list[float | None]:
        return [
            registry.get_sample_value(f"{name}_sum"),
            registry.get_sample_value(f"{name}_count"),
            *(registry.get_sample_value(f"{name}_bucket", {"le": bound}) for bound in ("1.0", "2.0", "+Inf")),
        ]

    assert samples("a") == samples("b")

"""Dashboards, alerts and scrape settings: well formed, and about metrics that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import Metric

from argosy_runtime.metrics import METRICS_REGISTRY

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "observability"
DASHBOARDS = sorted(FOLDER.glob("grafana/dashboards/*.json"))
RULES = FOLDER / "prometheus" / "argosy-alerts.yml"
NAME = re.compile(r"\b(?:argosy|process)_[a-z_0-9]+")
DATASOURCE_UID = "argosy-prometheus"


def metric_families() -> list[Metric]:
    """Every metric of the typed module, those without samples included."""
    return list(METRICS_REGISTRY.collect())


def series() -> dict[str, set[str]]:
    """Labels by name of time series, as Prometheus sees them."""
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}
    labels = {
        collector._name: set(collector._labelnames)  # type: ignore[attr-defined]
        for collector in METRICS_REGISTRY._collector_to_names
        if hasattr(collector, "_labelnames")
    }
    found = {}
    for family in metric_families():
        for suffix in suffixes.get(family.type, [""]):
            found[family.name + suffix] = labels.get(family.name, set()) | ({"le"} if suffix == "_bucket" else set())
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Where each query stands, and the query."""
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]
        for variable in dashboard["templating"]["list"]:
            yield f"{path.name}: variable {variable['name']}", variable["query"]["query"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield f"alert {rule['alert']}", rule["expr"]


def test_queries_name_metrics_that_exist() -> None:
    """No dashboard or alert looks at a series that no process has."""
    known = series()
    asked = {(where, name) for where, query in expressions() for name in NAME.findall(query)}
    assert len(asked) > 40
    assert {(where, name) for where, name in asked if name not in known and name.startswith("argosy_")} == set()
    assert {name for _, name in asked if not name.startswith("argosy_")} <= {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
    }


def test_queries_group_by_labels_that_the_metric_has() -> None:
    """A sum over a label that a metric lacks would silently be one line."""
    known = series()
    of_every_target = {"job", "instance"}
    wrong = []
    for where, query in expressions():
        for labels, name in re.findall(r"by \(([a-z, ]+)\) \((?:rate\(|increase\()?(argosy_\w+)", query):
            extra = {label.strip() for label in labels.split(",")} - known[name] - of_every_target
            if extra:
                wrong.append((where, name, extra))
    assert wrong == []


def test_every_metric_of_the_scheduler_is_on_a_dashboard() -> None:
    """What is worth counting is worth seeing."""
    asked = {name for _, query in expressions() for name in NAME.findall(query)}
    seen = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in asked} | asked
    ours = {family.name for family in metric_families() if family.name.startswith("argosy_")}
    assert ours - seen == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboard_panels_are_distinct_and_use_our_data_source(path: Path) -> None:
    """A dashboard loads as it is: ids differ, panels do not overlap, and every query has its source."""
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    panels: list[dict[str, Any]] = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells
        assert max(x for x, _ in own) < 24
        cells |= own
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {DATASOURCE_UID}


def test_dashboards_have_ids_of_their_own() -> None:
    """Grafana keeps one dashboard per uid."""
    uids = [json.loads(path.read_text(encoding="utf-8"))["uid"] for path in DASHBOARDS]
    assert len(uids) == len(set(uids)) == 3


def test_provisioned_data_source_is_the_one_that_dashboards_name() -> None:
    """The uid in the dashboards is the provisioned one."""
    path = FOLDER / "grafana" / "provisioning" / "datasources" / "prometheus.yml"
    (source,) = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]
    assert source["uid"] == DATASOURCE_UID


def test_data_source_knows_how_often_prometheus_scrapes() -> None:
    """Grafana makes the window of a rate from it; with its own default of 15 s, windows would be too long."""
    path = FOLDER / "grafana" / "provisioning" / "datasources" / "prometheus.yml"
    (source,) = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]
    scraping = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))["global"]
    assert source["jsonData"] == {"timeInterval": scraping["scrape_interval"]}


def test_alerts_say_what_to_do() -> None:
    """Each alert has a severity, and tells its reader what happened and what it means."""
    rules = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    assert {rule["labels"]["severity"] for rule in rules} == {"page", "ticket"}
    assert [rule["alert"] for rule in rules if set(rule["annotations"]) != {"summary", "description"}] == []


def test_scraped_targets_are_services_of_the_compose_file() -> None:
    """Prometheus looks at every service of ours that has a metrics page, by the name it has in the stack."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    scrape = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    targets = {
        target.partition(":")[0]
        for job in scrape
        for config in job.get("static_configs", [])
        for target in config["targets"]
    }
    found = {name for job in scrape for config in job.get("dns_sd_configs", []) for name in config["names"]}
    with_metrics = {
        name
        for name, service in compose.items()
        if any(key.endswith("METRICS_LISTEN") for key in service.get("environment", {}))
    }
    assert targets - {"collector"} | found == with_metrics

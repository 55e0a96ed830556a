"""Plugins from installed distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import Cycle, Framework, Point, Registration
from argosy_runtime.metrics import METRICS
from argosy_runtime.plugins import FaultReporter, load_plugins
from argosy_testkit.plugins import install_plugins


class Plain:
    """A plugin."""

    def __init__(self, *, size: str = "1") -> None:
        """Take one setting."""
        self.size = int(size)

    def filter(self, cycle: Cycle) -> None:
        """Let all pass."""


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution with good and bad plugins."""
    plugins = {name: f"{__name__}:{target}" for name, target in (("plain", "Plain"), ("other", "Plain"))}
    plugins |= {"gone": "no_such_module:Thing", "constant": f"{__name__}:NOTHING"}
    install_plugins(tmp_path, plugins)
    monkeypatch.syspath_prepend(str(tmp_path))


NOTHING = 3


@pytest.mark.usefixtures("_installed")
def test_plugins_are_made_with_their_settings_in_the_order_of_the_names() -> None:
    """Each gets its own settings only, as texts."""
    plugins = load_plugins(["other", "plain"], {"plain.size": "7"})
    assert [(name, plugin.size) for name, plugin in plugins.items()] == [("other", 1), ("plain", 7)]  # type: ignore[attr-defined]
    assert load_plugins([]) == {}


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("names", "settings", "text"),
    [
        (["plane"], {}, "there is no plugin 'plane'; installed are: constant, gone, other, plain"),
        (["plain", "plain"], {}, "a plugin is named twice"),
        (["gone"], {}, "plugin 'gone' (no_such_module:Thing) cannot be made: ModuleNotFoundError"),
        (["constant"], {}, "cannot be made: TypeError: 'int' object is not callable"),
        (["plain"], {"plain.size": "large"}, "cannot be made: ValueError: invalid literal for int()"),
        (["plain"], {"plain.colour": "red"}, "cannot be made: TypeError"),
        (
            ["plain"],
            {"other.size": "2"},
            "plugin setting 'other.size' is not plugin.keyword with a plugin that is named",
        ),
        (["plain"], {"size": "2"}, "plugin setting 'size' is not plugin.keyword"),
    ],
    ids=["unknown", "twice", "import", "no-factory", "bad-value", "bad-keyword", "of-nobody", "no-dot"],
)
def test_plugin_that_cannot_be_had_is_told_at_the_start(names: list[str], settings: dict[str, str], text: str) -> None:
    """The message says which plugin and why."""
    with pytest.raises(InvalidRequest) as refusal:
        load_plugins(names, settings)
    assert text in refusal.value.message


@pytest.mark.usefixtures("_installed")
def test_name_that_two_distributions_offer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which one is meant must not depend on the order of installation."""
    install_plugins(tmp_path / "second", {"plain": "another.module:Plain"}, distribution="second")
    monkeypatch.syspath_prepend(str(tmp_path / "second"))
    with pytest.raises(InvalidRequest, match="several distributions offer a plugin 'plain'"):
        load_plugins(["plain"])


class _Log:
    """Keeps warnings."""

    def __init__(self) -> None:
        """Start empty."""
        self.told: list[tuple[str, dict[str, object]]] = []

    def warning(self, event: str, **fields: object) -> None:
        """Keep one."""
        self.told.append((event, fields))


def test_errors_of_plugins_are_all_counted_and_told_now_and_then() -> None:
    """A plugin that always fails does not flood the log."""
    framework = Framework([Registration(point=Point.EVENT, name="broken", function=lambda _: 1 / 0)])
    log, now_s = _Log(), [0.0]
    reporter = FaultReporter(framework, "testing", log=log, monotonic=lambda: now_s[0])  # type: ignore[arg-type]
    for now in (0.0, 1.0, 59.0, 61.0):
        now_s[0] = now
        framework.notify(np.zeros(0))
        reporter.report()
    counted = METRICS.plugin_faults.labels("testing", "event", "broken")
    assert counted._value.get() == 4
    assert [fields["reason"] for _, fields in log.told] == ["ZeroDivisionError: division by zero"] * 2

"""`argosy config`."""

from __future__ import annotations

import json
from typing import Any

from argosy_testkit.fake_api import FakeApi


def test_settings_are_set_shown_and_unset_with_their_history(api: FakeApi, argosy: Any) -> None:
    """Who set what and why is on one line each, the newest first."""
    assert argosy("config", "history").out + argosy("config", "get", "--changed").out == ""
    done = argosy("config", "set", "leader.round.half_time_s=60", "--comment", "bursts")
    assert done.out == "version 1 holds from the next round on\n"
    lines = [line.split() for line in argosy("config", "get", "half").out.splitlines()]
    assert lines[1:] == [["leader.round.half_time_s", "60", "300.0"]]
    assert len(argosy("config", "get").out.splitlines()) == 3
    assert argosy("config", "unset", "leader.round.half_time_s").code == 0
    history = [line.split() for line in argosy("config", "history").out.splitlines()[1:]]
    assert [[line[0], *line[2:]] for line in history] == [
        ["2", "root", "-", "-"], ["1", "root", "leader.round.half_time_s=60", "bursts"],
    ]  # fmt: skip
    assert len(json.loads(argosy("config", "history", "--limit", "1", "-o", "json").out)) == 1


def test_dry_run_changes_nothing(api: FakeApi, argosy: Any) -> None:
    """It says whether it would be taken."""
    assert argosy("config", "set", "leader.round.half_time_s=60", "--dry-run").out == "it would be taken\n"
    assert api.pool_settings == []


def test_what_is_no_setting_does_not_reach_the_server(api: FakeApi, argosy: Any) -> None:
    """KEY=VALUE, each key once."""
    assert argosy("config", "set", "leader.round.half_time_s").code == 2
    assert argosy("config", "set", "a=1", "a=2").code == 2
    assert api.requests["SetPoolSettings"] == []


def test_fault_of_stored_settings_is_told(api: FakeApi, argosy: Any) -> None:
    """Operators see that the last good ones hold."""
    api.settings_fault = "version 2 cannot be used, and the one before holds: no"
    assert "warning: version 2 cannot be used" in argosy("config", "get").err

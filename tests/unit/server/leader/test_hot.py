"""Settings that change while this process leads."""

from __future__ import annotations

from typing import Any

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.ledger import PermitSettings
from argosy_runtime.config import value_texts
from argosy_server.config import ServerConfig
from argosy_server.leader.hot import HotSettings
from argosy_server.leader.settings import LeaderSettings, is_hot
from argosy_store.replicas.pool_settings import PoolSettingsRow


def _row(version: int, settings: dict[str, str]) -> PoolSettingsRow:
    return PoolSettingsRow(version, settings, 1, "root", "")


def _hot(**fields: Any) -> HotSettings:
    return HotSettings(ServerConfig(database_url="", leader=LeaderSettings(**fields)))


def test_what_is_set_is_laid_over_the_configuration() -> None:
    """What is not named is as configured, and what is set no more is so again."""
    hot = _hot(lease_s=20.0)
    first = hot.take(_row(1, {"leader.round.half_time_s": "60", "leader.round.resource_weights": "cpu=0.001"}))
    assert first is not None
    assert (first.version, first.round.half_time_s, first.round.resource_weights) == (1, 60.0, {"cpu": 0.001})
    assert first.decision_profile is None, "plugins stay as they are unless something of theirs changed"
    assert hot.present.leader.lease_s == 20.0
    second = hot.take(_row(2, {"leader.round.spread": "false"}))
    assert second is not None
    assert (second.round.half_time_s, second.round.spread) == (300.0, False)
    assert second.decision_profile is not None
    assert not second.decision_profile.spread
    assert hot.take(None) is None


def test_pool_that_is_set_to_pack_fills_the_best_node_first() -> None:
    """Its decision phase is made anew, as samplers rank by another score from the next round on."""
    changed = _hot().take(_row(1, {"leader.round.node_score": "fewest-nodes"}))
    assert changed is not None
    assert changed.round.node_score == "fewest-nodes"
    assert changed.decision_profile is not None
    assert not changed.decision_profile.spread


def test_rules_for_permits_are_set_by_their_keys_with_amounts_of_nodes() -> None:
    """A semicolon parts the amounts of a node, since commas part nodes; they read back as they are shown."""
    hot = _hot()
    said = {"watermark": "0.8", "node_system": "n1=cpu=1;memory=2Gi,n2=cpu=2;memory=1Gi"}
    said |= {"lease_s": "3", "margin_s": "5", "rises_per_s": "2"}
    changed = hot.take(_row(1, {f"leader.round.permits.{name}": text for name, text in said.items()}))
    assert changed is not None
    settings = PermitSettings().under(changed.round.permits)
    assert (settings.watermark_ratio, settings.node_system["n1"]) == (0.8, (1000, 2 << 30))
    assert (settings.lease_s, settings.margin_s, settings.rises_per_s) == (3.0, 5.0, 2.0)
    assert value_texts(hot.present)["leader.round.permits.node_system"] == said["node_system"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"leader.round.half_time_s": "0"}, "leader.round.half_time_s: '0' is not a number above 0"),
        ({"leader.round.half_time_s": "x"}, "'x' is not a number"),
        ({"leader.round.half_tim_s": "1"}, "did you mean leader.round.half_time_s?"),
        ({"leader.round.nodes_to_sample_ratio": "2"}, "leader.round.nodes_to_sample_ratio is 2.0, but must be"),
        ({"leader.round.permits.unit": "cpu=1"}, "leader.round.permits.unit is 'cpu=1'; it must name cpu and memory"),
        ({"leader.lease_s": "1"}, "not every setting changes while a pool is led: leader.lease_s"),
        ({"leader.plugin_settings": "nobody.x=1"}, "nobody"),
    ],
)
def test_stored_settings_that_cannot_be_used_end_nothing_and_the_last_good_ones_hold(
    settings: dict[str, str], text: str
) -> None:
    """As after a release that lacks a key; people are told why."""
    hot = _hot()
    assert hot.take(_row(1, {"leader.round.half_time_s": "60"})) is not None
    with pytest.raises(InvalidRequest) as caught:
        hot.check(settings)
    assert text in caught.value.message
    assert hot.take(_row(2, settings)) is None
    assert "version 2 cannot be used, and the one before holds" in hot.fault
    assert text in hot.fault
    assert hot.present.leader.round.half_time_s == 60.0
    assert hot.take(_row(3, {})) is not None
    assert hot.fault == ""


def test_hot_are_the_settings_of_rounds_and_what_plugins_are_made_with() -> None:
    """Paces, addresses and the list of plugins hold as long as the process."""
    assert is_hot("leader.round.resource_weights")
    assert is_hot("leader.plugin_settings")
    assert is_hot("leader.plugin_weights")
    assert not any(map(is_hot, ("leader.plugins", "leader.lease_s", "pool", "leader.round")))

"""Configurations of the services side by side: what a cluster agent has of its parts, and what all refuse."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from argosy_cluster_agent.config import ClusterAgentConfig, part_config
from argosy_core.errors import InvalidRequest
from argosy_executor.config import ExecutorConfig
from argosy_runtime.config import load_config
from argosy_sampler.config import SamplerConfig
from argosy_server.config import ServerConfig

OF_A_CLUSTER = ["--cluster", "lab", "--cluster-address", "unix:/s", "--server-addresses", "a:1"]
NEEDED: dict[type[Any], list[str]] = {
    ServerConfig: ["--database-url", "postgresql://h/d"],
    ExecutorConfig: OF_A_CLUSTER,
    SamplerConfig: OF_A_CLUSTER,
    ClusterAgentConfig: OF_A_CLUSTER,
}
OTHERWISE = {"connect_timeout_s", "drain_s", "grpc"}
"""Settings whose default in the agent is the executor's, which a sampler alone has otherwise."""


def fields_of(kind: type[Any]) -> dict[str, tuple[object, object]]:
    """Return default and metadata of each field."""
    return {
        one.name: (
            one.default_factory() if callable(one.default_factory) else one.default,
            dict(one.metadata),
        )
        for one in dataclasses.fields(kind)
    }


@pytest.mark.parametrize(("part", "apart"), [(ExecutorConfig, set()), (SamplerConfig, OTHERWISE)])
def test_agent_has_every_setting_of_its_parts(part: type[Any], apart: set[str]) -> None:
    """With the same default and the same range, so that a setting of a part cannot be forgotten in the agent."""
    own = fields_of(ClusterAgentConfig)
    wanted = fields_of(part)
    assert wanted.keys() - own.keys() == set()
    assert {name for name, field in wanted.items() if field != own[name]} == apart


def test_agent_gives_its_parts_what_it_was_given() -> None:
    """Flags reach the part that they are for, 0 for ever included."""
    config = load_config(
        ClusterAgentConfig,
        [
            *(*OF_A_CLUSTER, "--image-timeout-s=0", "--quota-timeout-s=0", "--pending-timeout-s=0", "--gather-ms=0"),
            *(
                "--drain-s=0",
                "--capacity-interval-ms=0",
                "--node-interval-ms=0",
                "--call-count=2",
                "--filters=resources",
            ),
            *("--scores", "most-allocated=2", "--max-log-count=3", "--retry-most-s=5"),
        ],
        {},
    )
    executor, sampler = part_config(config, ExecutorConfig), part_config(config, SamplerConfig)
    assert (executor.image_timeout_s, executor.quota_timeout_s, executor.pending_timeout_s) == (0, 0, 0)
    assert (executor.gather_ms, executor.drain_s, executor.call_count) == (0, 0, 2)
    assert executor.max_log_count == 3
    assert (sampler.capacity_interval_ms, sampler.node_interval_ms, sampler.retry_most_s) == (0, 0, 5)
    assert (sampler.filters, dict(sampler.scores)) == (("resources",), {"most-allocated": 2})


@pytest.mark.parametrize("flags", [["--scores", "none=1"], ["--filters", "none"]], ids=["score", "filter"])
def test_agent_refuses_plugins_that_its_sampler_would(flags: list[str]) -> None:
    """Before anything is started."""
    with pytest.raises(InvalidRequest, match="none"):
        load_config(ClusterAgentConfig, [*OF_A_CLUSTER, *flags], {})


@pytest.mark.parametrize("kind", NEEDED, ids=lambda kind: kind.SERVICE)
@pytest.mark.parametrize("name", ["Bad Name!", "-x", "", "x" * 64], ids=["blanks", "end", "empty", "long"])
@pytest.mark.parametrize("setting", ["pools", "installation"])
def test_names_that_cannot_be_labels_are_refused(kind: type[Any], name: str, setting: str) -> None:
    """They become labels, selectors and parts of topics; the message names the setting and what it may be."""
    key = {"installation": "leader.installation", "pools": "pool"}[setting] if kind is ServerConfig else setting
    flag = "--" + key.replace(".", "-")
    with pytest.raises(InvalidRequest) as refusal:
        load_config(kind, [*NEEDED[kind], f"{flag}={name}"], {})
    assert refusal.value.message.startswith((f"{key} is {name!r}, but must be 1 to 63 letters", "pools is ''"))


@pytest.mark.parametrize("kind", [ClusterAgentConfig, ExecutorConfig, SamplerConfig], ids=lambda kind: kind.SERVICE)
def test_services_of_clusters_take_several_pools(kind: type[Any]) -> None:
    """In the order given; none, or one twice, is refused."""
    assert load_config(kind, [*NEEDED[kind], "--pools=gpu_2.a-B,default"], {}).pools == ("gpu_2.a-B", "default")
    assert load_config(kind, NEEDED[kind], {}).pools == ("default",)
    with pytest.raises(InvalidRequest, match="each once"):
        load_config(kind, [*NEEDED[kind], "--pools=a,b,a"], {})


@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        (ServerConfig, "--leader-round-seed"),
        (ExecutorConfig, "--kubernetes-default-namespace"),
        (SamplerConfig, "--kubernetes-default-namespace"),
        (ClusterAgentConfig, "--kubernetes-default-namespace"),
    ],
)
def test_settings_that_could_decide_nothing_are_none(kind: type[Any], flag: str) -> None:
    """The seed of rounds is the leader's, and what a missing namespace means is read by server and executor alike."""
    with pytest.raises(InvalidRequest, match=f"{flag}: is no key"):
        load_config(kind, [*NEEDED[kind], f"{flag}=1"], {})

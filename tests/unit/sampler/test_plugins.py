"""The worked examples of `examples/plugins`, and plugins that fail, in a running sampler."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from tests.unit.sampler.conftest import FakeLeader, Session, int32, int64, running_sampler

from argosy.sampler.v1 import sampler_pb2
from argosy_core.errors import InvalidRequest
from argosy_core.placement import CommitOutcome
from argosy_kube.port import NodeDescription
from argosy_kube.simulated.host import ClusterHost
from argosy_runtime.metrics import METRICS
from argosy_sampler.config import SamplerConfig
from argosy_testkit.cluster_contract import make_bag, make_create_batch, make_pod
from argosy_testkit.in_process_cluster import InProcessCluster
from argosy_testkit.plugins import install_plugins, install_project

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
PLACED, CONFLICT, REFUSED = (int(one) for one in (CommitOutcome.PLACED, CommitOutcome.CONFLICT, CommitOutcome.REFUSED))


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the examples, and a filter that always fails."""
    install_project(tmp_path, EXAMPLES)
    install_plugins(tmp_path / "broken", {"broken": f"{__name__}:Broken"}, distribution="broken")
    for folder in (EXAMPLES, tmp_path / "broken", tmp_path):
        monkeypatch.syspath_prepend(str(folder))


class Broken:
    """A filter whose backend is away until it is there."""

    is_away = True

    def filter(self, _: object) -> None:
        """Fail while the backend is away."""
        if Broken.is_away:
            raise ConnectionError("licence server is away")

    def event(self, _: object) -> bool:
        """Want to be asked again after everything that happens."""
        return True


def put(host: ClusterHost, name: str, **labels: str) -> None:
    """Add a node with labels `example.com/...`."""
    labels = {f"example.com/{key}": value for key, value in labels.items()}
    host.put_nodes(
        (NodeDescription(name=name, allocatable={"cpu": 4000, "memory": 8 << 30, "pods": 10}, labels=labels),)
    )


async def candidates(session: Session) -> list[str]:
    """Names of the nodes offered to class 1, best first."""
    answer = await session.sample([1], complete_column=b"\1")
    nodes = np.frombuffer(answer.node_column, dtype="<i4")[np.frombuffer(answer.candidate_column, dtype="<i4")]
    return [session.nodes[node].name for node in nodes.tolist()]


async def test_example_filter_closes_nodes_by_the_hour(
    host: ClusterHost, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it answers changes with time, and the next request sees that: nothing is remembered of it."""
    hour = [3]
    monkeypatch.setattr("time.gmtime", lambda: type("Time", (), {"tm_hour": hour[0]}))
    for name in ("node-a", "node-b", "node-c"):
        put(host, name, hours="20-6")
    async with running_sampler(host, leader.address, plugins={"node-hours": {}}):
        session = await leader.ready_session()
        assert len(await candidates(session)) == 3
        hour[0] = 12
        assert await candidates(session) == []
        hour[0] = 21
        assert len(await candidates(session)) == 3


async def test_example_score_puts_labelled_nodes_first(host: ClusterHost, leader: FakeLeader) -> None:
    """Its settings come from the configuration; built-in scores count beside it."""
    put(host, "node-c", price="spot")
    settings = {"label": "example.com/price", "value": "spot"}
    async with running_sampler(host, leader.address, plugins={"prefer-label": settings}):
        session = await leader.ready_session()
        assert (await candidates(session))[0] == "node-c"


async def test_example_of_the_commit_lets_one_run_a_rack_start_at_once(host: ClusterHost, leader: FakeLeader) -> None:
    """The second is placed once the first was given up, the third once the pod of the second is seen."""
    for name in ("node-a", "node-b"):
        put(host, name, rack="r1")
    cluster = InProcessCluster(host, "one")
    async with running_sampler(host, leader.address, plugins={"one-per-rack": {}}):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        assert await session.commit([(1, 1), (2, 1)], [[b], [a]]) == ([b, -1], [PLACED, REFUSED])
        await session.send(release=sampler_pb2.Release(epoch=1, handle_column=int64([1]), attempt_column=int32([1])))
        assert await session.commit([(2, 1)], [[a]]) == ([a], [PLACED])
        assert await session.commit([(3, 1)], [[b]]) == ([-1], [REFUSED])
        await cluster.create_objects(make_create_batch([(2, 1)], bag=make_bag(make_pod(cpu="2"))))
        await session.wait_free(node_a=2000)
        assert await session.commit([(3, 1)], [[b]]) == ([b], [PLACED])


async def test_example_of_the_commit_profile_keeps_part_of_a_node_free(host: ClusterHost, leader: FakeLeader) -> None:
    """A run that would take it goes on to its next candidate, and has met a conflict without one."""
    for name in ("node-a", "node-b"):
        put(host, name)
    settings = {"ratio": "0.6", "nodes": "node-a node-x"}
    async with running_sampler(host, leader.address, commit_plugins={"keep-free": settings}):
        session = await leader.ready_session()
        a, b = session.index("node-a"), session.index("node-b")
        assert await session.commit([(1, 1)], [[a]]) == ([a], [PLACED])
        assert await session.commit([(2, 1), (3, 1)], [[a, b], [a]]) == ([b, -1], [PLACED, CONFLICT])


async def test_error_of_a_filter_ends_with_its_cause_and_is_counted(host: ClusterHost, leader: FakeLeader) -> None:
    """Nothing is offered meanwhile, the class is not called one that fits nowhere, and the session lives."""
    counter = METRICS.plugin_faults.labels("lab", "filter", "broken")
    before = counter._value.get()
    Broken.is_away = True
    async with running_sampler(host, leader.address, plugins={"broken": {}}):
        session = await leader.ready_session()
        answer = await session.sample([1], complete_column=b"\1")
        assert (answer.candidate_column, answer.complete_column) == (b"", b"\0")
        assert counter._value.get() > before
        Broken.is_away = False
        assert len(await candidates(session)) == 3


async def test_class_is_told_to_the_leader_again_when_the_plugin_that_turned_it_away_wants(
    host: ClusterHost, leader: FakeLeader
) -> None:
    """It does not have to wait until its reason ends by itself; room is not known."""
    Broken.is_away = True
    async with running_sampler(host, leader.address, plugins={"broken": {}}):
        session = await leader.ready_session()
        assert await candidates(session) == []
        Broken.is_away = False
        put(host, "node-d")
        async with asyncio.timeout(50):
            while session.capacity is None or not session.capacity.fitting_class_column:
                session.news.clear()
                await session.news.wait()
        assert np.frombuffer(session.capacity.fitting_class_column, dtype="<i4").tolist() == [1]
        answer = await session.sample([1], complete_column=b"\1")  # by number: the new node is described later
        assert len(np.frombuffer(answer.candidate_column, dtype="<i4")) == 4


def test_plugin_that_is_not_installed_is_refused_before_anything_starts() -> None:
    """The message names what is there."""
    with pytest.raises(InvalidRequest, match="no plugin 'node-hour'; installed are: attach-disk, broken,"):
        SamplerConfig(cluster="c", cluster_address="x", server_addresses=("y",), plugins=("node-hour",))
    with pytest.raises(InvalidRequest, match="'cluster-costs' has nothing that the sampling profile calls: pre_filter"):
        SamplerConfig(cluster="c", cluster_address="x", server_addresses=("y",), plugins=("cluster-costs",))


def test_examples_are_short() -> None:
    """An example that is longer explains less."""
    modules = [path for path in EXAMPLES.rglob("*.py") if path.name != "__init__.py"]
    assert len(modules) == 7
    assert [path.name for path in modules if len(path.read_text().splitlines()) >= 40] == ["attach_disk.py"]
    assert all(len(path.read_text().splitlines()) < 50 for path in modules)

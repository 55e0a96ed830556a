"""The executor between a leader and a cluster."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import grpc
import numpy as np
import pytest

from argosy_core.errors import NotAllowedNow, StateConflict
from argosy_executor.session import _cause, _Ended
from argosy_kube.simulated.faults import Fault
from argosy_kube.simulated.host import ClusterHost

Fixture = Any


async def test_executor_says_who_it_is_and_runs_what_it_is_given(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """Hello names cluster, uid, process, host and pool; rows become pods; their states come up in order."""
    async with run_executor(host, leader.address, pools=("p1",)):
        session = await leader.next_session()
        assert (session.hello.cluster, session.hello.cluster_uid, session.hello.pool) == ("lab", host.engine.uid, "p1")
        assert (len(session.hello.process_id), session.hello.host) == (16, socket.gethostname())
        await session.give([(1, 1), (2, 1)], make_bag(run_time="10ms"))
        await session.give([(3, 1)], make_bag(run_time="10ms", exit_code=3), spec_hash=b"x" * 16)
        await session.wait_for(
            lambda: all(session.states.get((h, 1, 0), [""])[-1] in {"SUCCEEDED", "FAILED"} for h in (1, 2, 3))
        )
        assert session.states[1, 1, 0] in (["CREATED", "RUNNING", "SUCCEEDED"], ["CREATED", "SUCCEEDED"])
        assert session.states[3, 1, 0][-1] == "FAILED"
        codes = [code for batch in session.batches for code in np.frombuffer(batch.exit_code_column, "<i4").tolist()]
        assert sorted(set(codes)) == [0, 3]
        assert [batch.batch for batch in session.batches] == list(range(1, len(session.batches) + 1))
    assert host.audit().double_runs == 0


async def test_stop_deletes_the_pod_and_reports_cancelled(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """A stopped run's pod goes, and the leader hears that it was cancelled."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 0), ()))
        await session.stop([(1, 1)])
        await session.wait_for(lambda: session.states[1, 1, 0][-1] == "CANCELLED")
        assert host.audit().pods_present == 0


async def test_finished_pods_go_after_their_time_once_stored(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """With no keep time a finished pod goes once its end is stored and no predecessor could make it again."""
    leader.keep_finished_s = 0.0
    leader.fence_s, leader.heartbeat_s = 0.2, 0.05
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        session.is_storing = False
        await session.give([(1, 1)], make_bag(run_time="1ms"))
        await session.wait_for(lambda: session.states.get((1, 1, 0), [""])[-1] == "SUCCEEDED")
        beats = session.heartbeat_count
        await session.wait_for(lambda: session.heartbeat_count > beats + 2)
        assert host.audit().pods_present == 1
        await session.store()
        await session.wait_for(lambda: host.audit().pods_present == 0)


async def test_what_a_predecessor_left_goes_after_the_leaders_time(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """A cluster is listed before its leader is heard; what has ended by then stays no longer than he says."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag(run_time="1ms"))
        await session.wait_for(lambda: session.states.get((1, 1, 0), [""])[-1] == "SUCCEEDED")
    assert host.audit().pods_present == 1
    leader.keep_finished_s, leader.heartbeat_s = 0.0, 0.2
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag(run_time="1ms"), seen=True)
        await session.wait_for(lambda: host.audit().pods_present == 0)


async def test_bag_is_made_whole_and_an_unmanaged_pod_ends_it(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """Pods come last; a name that belongs to somebody else fails the bag before its pods."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag(kinds=("Service", "Pod")))
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 1), ()))
        assert session.states[1, 1, 0] == ["RUNNING"]
        host.inject(Fault(kind="create-foreign"))
        await session.give([(2, 1)], make_bag(kinds=("Service", "Pod")))
        await session.wait_states(2, "FAILED")
        await session.wait_states(2, "FAILED", position=1)
        texts = {text for batch in session.batches for text in batch.texts}
        assert any("somebody else" in text for text in texts)


@pytest.mark.parametrize("fault", ["create-timeout", "create-throttled", "create-quota", "unavailable"])
async def test_faults_of_the_cluster_end_in_one_pod(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, *, make_bag: Fixture, fault: Any
) -> None:
    """Calls that fail, whether applied or not, are asked again and adopt what is there."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        host.inject(Fault(kind=fault))
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 0), ()))
        assert host.audit().pods_created == 1


@pytest.mark.parametrize("fault", ["watch-dropped", "watch-stale"])
async def test_broken_watches_lose_nothing(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, *, make_bag: Fixture, fault: Any
) -> None:
    """A watch that ends is resumed, and one that cannot be is replaced by a listing."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        for handle in range(1, 4):
            await session.give([(handle, 1)], make_bag(run_time="20ms"))
            host.inject(Fault(kind=fault))
            host.inject(Fault(kind="watch-dropped"))
            await session.wait_for(lambda handle=handle: session.states.get((handle, 1, 0), [""])[-1] == "SUCCEEDED")


async def test_redirect_is_followed(
    host: ClusterHost, leader: Fixture, other_leader: Fixture, run_executor: Fixture
) -> None:
    """A replica that is not the leader says who is."""
    leader.redirect = other_leader.address
    async with run_executor(host, leader.address):
        await other_leader.next_session()
    assert leader.dialled >= 1


async def test_replica_that_knows_no_leader_is_passed_over(
    host: ClusterHost, leader: Fixture, other_leader: Fixture, run_executor: Fixture
) -> None:
    """Configured addresses are tried in turn; one that lives and knows is enough."""
    leader.redirect = ""
    async with run_executor(host, "127.0.0.1:1", leader.address, other_leader.address):
        await other_leader.next_session()


async def test_new_session_starts_from_a_comparison(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """After a reconnect the hello lists the runs, what was not stored is reported again, and specs are sent again."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        session.is_storing = False
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 0), ()))
        session.ended.set()
        second = await leader.next_session()
        assert second.known_runs() == {(1, 1)}
        await second.wait_states(1, "RUNNING")
        assert second.batches[0].batch == 1
        await second.give([(2, 1)], make_bag())
        await second.wait_for(lambda: "RUNNING" in second.states.get((2, 1, 0), ()))
    assert host.audit().pods_created == 2


async def test_restarted_executor_finds_its_pods(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """A new process with nothing on disk adopts the pods once their rows are there, and has another id."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1), (2, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((2, 1, 0), ()))
    async with run_executor(host, leader.address):
        second = await leader.next_session()
        assert second.hello.process_id != session.hello.process_id
        assert second.known_runs() == set()
        await second.wait_for(lambda: second.seen == {(1, 1), (2, 1)})
        assert not second.states
        await second.give([(1, 1), (2, 1)], make_bag(), seen=True)
        await second.wait_states(1, "RUNNING")
        await second.give([(3, 1)], make_bag(), seen=True)
        await second.wait_states(3, "LOST")
        await second.stop([(1, 1)])
        await second.wait_states(1, "RUNNING", "CANCELLED")
    assert host.audit().pods_created == 2


async def test_a_stop_that_comes_before_its_row_waits_for_it(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """A leader sends stops before rows to an executor that comes back; a run's pods are told by its row alone."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 0), ()))
    async with run_executor(host, leader.address):
        second = await leader.next_session()
        await second.stop([(1, 1)])
        await second.wait_for(lambda: second.seen == {(1, 1)})
        assert host.audit().pods_running == 1
        await second.give([(1, 1)], make_bag(), seen=True)
        await second.wait_for(lambda: second.states.get((1, 1, 0), [""])[-1] == "CANCELLED")
    assert host.audit().pods_created == 1


async def test_pods_of_runs_that_no_leader_has_are_deleted_and_nothing_is_reported_of_them(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """Whoever wrote their labels: a run that is leased later under this name begins with none of it."""
    leader.heartbeat_s = 0.2
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 0), ()))
    async with run_executor(host, leader.address):
        second = await leader.next_session()
        await second.wait_for(lambda: second.seen == {(1, 1)})
        await second.stop([(1, 1)], unknown=True)
        await second.wait_for(lambda: host.audit().pods_running == 0)
        await second.give([(1, 1)], make_bag())
        await second.wait_for(lambda: "RUNNING" in second.states.get((1, 1, 0), ()))
        assert set(second.states[1, 1, 0]) <= {"CREATED", "RUNNING"}
    assert host.audit().pods_created == 2


async def test_unconfirmed_executor_stops_acting_until_a_new_session(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """Without a confirmation within the fence nothing is made; the next session lets it go on."""
    leader.fence_s = 0.1
    leader.is_confirming = False
    leader.heartbeat_s = 0.2
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.wait_for(lambda: session.heartbeat_count >= 2)
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: session.heartbeat_count >= 3)
        assert host.audit().pods_created == 0
        leader.fence_s = 30.0
        session.ended.set()
        second = await leader.next_session()
        await second.wait_for(lambda: "RUNNING" in second.states.get((1, 1, 0), ()))


async def test_silent_leader_is_left(host: ClusterHost, leader: Fixture, run_executor: Fixture) -> None:
    """A stream on which nothing was heard for three heartbeats is given up for another."""
    leader.is_confirming, leader.heartbeat_s = False, 0.05
    async with run_executor(host, leader.address):
        await leader.next_session()
        await leader.next_session()


async def test_drain_waits_until_states_are_stored_and_leaves_pods(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """On SIGTERM the last states are stored before the executor leaves; pods keep running."""
    leader.heartbeat_s = 0.2
    async with run_executor(host, leader.address) as life:
        session = await leader.next_session()
        session.is_storing = False
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 0), ()))
        life.request_stop()
        beats = session.heartbeat_count
        await session.wait_for(lambda: session.heartbeat_count > beats + 2)
        await session.store()
    assert host.audit().pods_running == 1


async def test_executor_that_may_never_serve_gives_up(
    host: ClusterHost, leader: Fixture, run_executor: Fixture
) -> None:
    """A name that belongs to another cluster ends the process with the leader's words."""
    leader.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "not you")
    with pytest.raises(ExceptionGroup) as caught:
        async with run_executor(host, leader.address):
            await asyncio.Event().wait()
    assert caught.group_contains(NotAllowedNow, match="not you")


async def test_executor_whose_place_is_taken_waits_for_it(
    host: ClusterHost, leader: Fixture, run_executor: Fixture
) -> None:
    """While another process is heard the second one dials again and again; it is let in once that is gone."""
    leader.refusal = (grpc.StatusCode.ABORTED, "the executor of cluster lab is process 1 on host a")
    async with run_executor(host, leader.address):
        async with asyncio.timeout(50):
            for _ in range(4):
                await leader.dials.acquire()
        leader.refusal = None
        await leader.next_session()


async def test_other_installation_is_refused(host: ClusterHost, leader: Fixture, run_executor: Fixture) -> None:
    """An executor never looks after objects with other labels than the leader writes."""
    leader.installation = "two"
    with pytest.raises(ExceptionGroup) as caught:
        async with run_executor(host, leader.address):
            await asyncio.Event().wait()
    assert caught.group_contains(NotAllowedNow, match="two")


async def test_streams_that_end_at_any_moment_never_end_the_executor(
    host: ClusterHost, leader: Fixture, run_executor: Fixture, make_bag: Fixture
) -> None:
    """Whether a read or a write meets the end of a stream first, the executor dials again."""
    leader.heartbeat_s = 0.001
    async with run_executor(host, leader.address, gather_ms=0.0):
        for handle in range(1, 15):
            session = await leader.next_session()
            await session.give([(handle, 1)], make_bag())
            session.ended.set()
        session = await leader.next_session()
        session.ended.clear()
        assert session.hello.cluster == "lab"


def test_cause_of_an_end_is_what_the_read_knows() -> None:
    """A write that meets the end knows only that it is over, so what the read says comes first."""
    late = _Ended("the stream ended while it was written to")
    assert isinstance(_cause(BaseExceptionGroup("", [late, StateConflict("replaced")])), StateConflict)
    assert _cause(BaseExceptionGroup("", [late])) is late


@pytest.mark.parametrize("is_first", [True, False], ids=["nobody before", "a predecessor"])
async def test_only_the_first_executor_of_a_name_calls_what_it_does_not_see_absent(
    leader: Any, host: Any, run_executor: Any, *, is_first: bool
) -> None:
    """Where somebody was before, a call of his may still make the pod of a run that shall end."""
    leader.is_first, leader.heartbeat_s = is_first, 0.1
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.stop([(9, 1)])
        if is_first:
            await session.wait_states(9, "CANCELLED")
        else:
            await session.wait_for(lambda: session.heartbeat_count > 8)
            assert session.states == {}


async def test_what_was_reported_and_no_list_shows_is_lost_once_a_look_by_name_finds_nothing(
    leader: Any, host: Any, run_executor: Any, make_bag: Any
) -> None:
    """The look is made, answered and believed; what is there is found by lists and never looked for."""
    leader.is_first = True
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(9, 1)], make_bag(), seen=True)
        await session.wait_states(9, "LOST")

"""A delegated cluster at its sampler: what is offered and admitted, and which nodes are chosen when it is asked."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest, NotAllowedNow
from argosy_core.framework import PlacementBatch
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import ANY_NODE, NodeSpec
from argosy_core.placement import (
    CommitOutcome,
    CommitReply,
    CommitRequest,
    NodeSampler,
    Placements,
    SampleReply,
    SampleRequest,
    SamplerSession,
    WaitReason,
)
from argosy_core.plugins import build_framework, commit_framework

SMALL, LARGE, SPECIAL = 1, 2, 3


def session_of(
    *cores: int,
    listed: Placements | None = None,
    plugins: dict[str, object] | None = None,
    checks: dict[str, object] | None = None,
) -> SamplerSession:
    """Return a session on nodes of some cores, with classes of one and of three cores, after the leader's list."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=f"n{row}", total={"cpu": 1000 * count}) for row, count in enumerate(cores)])
    framework = build_framework(plugins=plugins)
    sampler = NodeSampler(ledger, framework, incarnation=1, checks=commit_framework(checks))
    session = SamplerSession(ledger, sampler, np.random.default_rng(1))
    special = SchedulingClass(requests=(("cpu", 1000),), node_selector=(("disk", "ssd"),))
    session.define(
        [
            (SMALL, SchedulingClass(requests=(("cpu", 1000),))),
            (LARGE, SchedulingClass(requests=(("cpu", 3000),))),
            (SPECIAL, special),
        ]
    )
    session.take_placements(listed or list_of(), is_last=True)
    return session


def list_of(*runs: tuple[int, str], class_id: int = SMALL) -> Placements:
    """Return a full list of runs, each the first of its job, with their nodes."""
    nodes = tuple(dict.fromkeys(node for _, node in runs))
    return Placements(
        members=Members.of([handle for handle, _ in runs], np.ones(len(runs))),
        class_ids=np.full(len(runs), class_id, dtype=np.int32),
        node=np.array([nodes.index(node) for _, node in runs], dtype=np.int32),
        nodes=nodes,
    )


def ask(session: SamplerSession, *class_ids: int, wanted: int = 1) -> SampleReply:
    """Ask for classes as the leader of a delegated cluster does."""
    return session.sample(
        1,
        SampleRequest(
            class_ids=np.array(class_ids, np.int32),
            wanted=np.full(len(class_ids), wanted, np.int32),
            complete=np.zeros(len(class_ids), np.int8),
            resources=("cpu",),
            nodes_to_sample_ratio=0.04,
            is_delegated=True,
        ),
    )


def lease(session: SamplerSession, count: int, class_id: int = SMALL, first: int = 1) -> CommitReply:
    """Lease runs to the cluster, one after the other, and return what became of them."""
    row = session.ledger.nodes.hold_any()
    return session.commit(
        1,
        CommitRequest(
            members=runs(*range(first, first + count)),
            class_ids=np.full(count, class_id, np.int32),
            offset=np.arange(count + 1, dtype=np.int32),
            candidate=np.full(count, row, np.int32),
        ),
    )


def runs(*handles: int) -> Members:
    """Return the first run of each job."""
    return Members.of(handles, np.ones(len(handles)))


def free(session: SamplerSession) -> list[int]:
    """Return the cores that are free on each node."""
    table = session.ledger.nodes
    rows = [row for row, name in enumerate(table.names) if name != ANY_NODE]
    return (table.free[table.axis.index("cpu"), rows] // 1000).tolist()


def test_class_that_fits_is_offered_the_cluster_with_all_that_is_free_there() -> None:
    """The leader decides among clusters by their sums; one that fits no node, or waits for room, is not offered."""
    session = session_of(4, 2)
    reply = ask(session, SMALL, LARGE, SPECIAL)
    assert [session.ledger.nodes.names[row] for row in reply.node] == [ANY_NODE]
    assert reply.free.tolist() == [[6000]]
    assert np.diff(reply.offset).tolist() == [1, 1, 0]
    assert reply.reason.tolist() == [WaitReason.NONE, WaitReason.NONE, WaitReason.MISMATCH]
    assert ask(session, LARGE, wanted=2).reason.tolist() == [WaitReason.NO_ROOM]


def test_emptier_cluster_has_the_higher_score() -> None:
    """Among delegated clusters the leader spreads as it does among nodes: by the share that is free."""
    session = session_of(4, 4)
    assert ask(session, SMALL).score.tolist() == [100.0]
    lease(session, 2)
    assert ask(session, SMALL).score.tolist() == [75.0]


def test_leases_are_admitted_up_to_what_nodes_hold_one_by_one_and_together() -> None:
    """Two nodes of four cores hold two pods of three, not the 2.7 of their sums; and no more cores than there are."""
    session = session_of(4, 4)
    assert lease(session, 3, LARGE).outcome.tolist() == [CommitOutcome.PLACED] * 2 + [CommitOutcome.CONFLICT]
    assert (
        lease(session, 4, SMALL, first=10).outcome.tolist() == [CommitOutcome.PLACED] * 2 + [CommitOutcome.CONFLICT] * 2
    )
    assert session.ledger.totals().free[session.ledger.axis.index("cpu")] == 0
    assert np.diff(ask(session, SMALL, LARGE).offset).tolist() == [0, 0]
    assert free(session) == [4, 4]
    session.ledger.check_invariants()


def test_repeated_commit_is_answered_as_before_and_admits_nothing_more() -> None:
    """A leader repeats a commit whose answer it did not get."""
    session = session_of(2)
    lease(session, 2)
    again = lease(session, 2)
    assert again.outcome.tolist() == [CommitOutcome.PLACED] * 2
    assert session.ledger.placement_count == 2


def test_runs_are_placed_on_the_fewest_nodes_and_where_least_is_left() -> None:
    """Large ones come first; a node in use is filled before another is begun, and a small one before a large one."""
    session = session_of(8, 4, 3)
    lease(session, 2, LARGE)
    lease(session, 3, SMALL, first=10)
    reply = session.place(runs(10, 1, 11, 2, 12))
    assert reply.nodes == ("n1", "n2", "n0", "n1", "n0")
    assert reply.reasons == ("",) * 5
    assert free(session) == [6, 0, 0]
    session.ledger.check_invariants()


def test_what_fits_no_node_is_returned_with_what_the_nearest_lacks_and_keeps_nothing_once_it_is_released() -> None:
    """Two of a pair of nodes are half full when a large pod comes: it goes back, and its room with it."""
    session = session_of(4, 4)
    lease(session, 1, LARGE)
    session.ledger.observe(pod_events(session, 2000))
    reply = session.place(runs(1))
    assert reply.nodes == ("",)
    assert "cpu" in reply.reasons[0]
    assert "n" in reply.reasons[0]
    session.release(1, runs(1))
    assert session.ledger.placement_count == 0
    assert free(session) == [2, 2]


def pod_events(session: SamplerSession, millicores: int) -> PodEvents:
    """Return a pod of somebody else on each node."""
    table = session.ledger.nodes
    rows = [row for row, name in enumerate(table.names) if name != ANY_NODE]
    requests = np.zeros((len(rows), len(table.axis)), np.int64)
    requests[:, table.axis.index("cpu")] = millicores
    return PodEvents(
        members=Members(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)),
        uids=np.arange(1, 16 * len(rows) + 1, dtype=np.uint8).reshape(-1, 16),
        nodes=np.array(rows, np.int32),
        ended=np.zeros(len(rows), np.bool_),
        requests=requests,
    )


def test_returned_class_is_told_once_capacity_rises() -> None:
    """Something has changed there: the leader may lease it to the cluster again."""
    session = session_of(4, 4)
    lease(session, 1, LARGE)
    events = pod_events(session, 2000)
    session.ledger.observe(events)
    session.place(runs(1))
    session.release(1, runs(1))
    session.sampler.take_fitting()
    ended = PodEvents(
        members=events.members, uids=events.uids, nodes=events.nodes, ended=~events.ended, requests=events.requests
    )
    session.ledger.observe(ended.part(np.array([0])))
    assert session.sampler.take_fitting()[0].tolist() == [LARGE]


def test_asking_again_gets_the_same_node_and_tells_the_leader_again() -> None:
    """Whoever lost an answer asks again; a node is chosen once."""
    session = session_of(4, 4)
    lease(session, 1)
    first = session.place(runs(1))
    assert session.take_placed()[1] == first.nodes
    assert session.take_placed()[1] == ()
    lease(session, 2, LARGE, first=5)
    session.place(runs(5, 6))
    assert session.place(runs(1)).nodes == first.nodes
    members, nodes = session.take_placed()
    assert dict(zip(members.handle.tolist(), nodes, strict=True))[1] == first.nodes[0]


def test_list_that_names_the_cluster_takes_no_node_from_a_run_and_the_leader_is_told_which() -> None:
    """A new leader may not know what the sampler chose; the choice stands."""
    session = session_of(4, 4)
    lease(session, 1)
    (node,) = session.place(runs(1)).nodes
    session.begin()
    session.take_placements(list_of((1, ANY_NODE)), is_last=True)
    members, nodes = session.take_placed()
    assert (members.handle.tolist(), nodes) == ([1], (node,))
    assert session.place(runs(1)).nodes == (node,)


def test_sampler_that_restarted_counts_what_is_leased_to_the_cluster_and_places_it_then() -> None:
    """It knows of it from the list alone."""
    session = session_of(2, listed=list_of((1, ANY_NODE), (2, ANY_NODE)))
    assert lease(session, 1, first=3).outcome.tolist() == [CommitOutcome.CONFLICT]
    assert session.place(runs(1, 2)).nodes == ("n0", "n0")
    assert free(session) == [0]


def test_nothing_is_placed_before_the_list_nor_twice_in_one_request() -> None:
    """What was given away before the restart would be given away again."""
    session = session_of(2)
    with pytest.raises(InvalidRequest, match="twice"):
        session.place(runs(1, 1))
    session.begin()
    with pytest.raises(NotAllowedNow, match="list"):
        session.place(runs(1))


def test_unknown_run_is_neither_placed_nor_returned() -> None:
    """Its leader may have let go of it, or its list may be under way."""
    reply = session_of(2).place(runs(1))
    assert (reply.nodes, reply.reasons) == (("",), ("",))


class NotOnFirst:
    """A plugin that refuses one node when it is to be reserved."""

    def post_score(self, batch: PlacementBatch) -> list[bool]:
        """Return which candidates it accepts."""
        return [batch.table.names[row] != "n0" for row in batch.nodes.tolist()]


def test_node_that_a_plugin_refuses_is_passed_over_and_all_refused_is_returned() -> None:
    """Plugins of the cluster have their say when the node is chosen."""
    session = session_of(1, 4, plugins={"not-on-first": NotOnFirst()})
    lease(session, 1)
    assert session.place(runs(1)).nodes == ("n1",)
    alone = session_of(4, plugins={"not-on-first": NotOnFirst()})
    lease(alone, 1)
    assert alone.place(runs(1)).reasons == ("plugins of the cluster refused every node that holds it",)


class HalfFree:
    """Check of the commit profile: what is placed on a node leaves half of it."""

    def check_conflicts(self, batch: PlacementBatch) -> np.ndarray:
        """Return which placements do."""
        table = batch.table
        return np.asarray(2 * table.free[0, batch.nodes] >= table.allocatable[0, batch.nodes])


def test_node_is_filled_as_far_as_checks_bear_and_what_none_bears_is_returned() -> None:
    """The commit profile has its say when the node is chosen; what it bears of several is found by fewer."""
    session = session_of(4, 4, checks={"half-free": HalfFree()})
    lease(session, 6)
    reply = session.place(runs(1, 2, 3, 4, 5, 6))
    assert reply.nodes == ("n0", "n0", "n1", "n1", "", "")
    assert reply.reasons[4:] == ("plugins of the cluster refused every node that holds it",) * 2
    assert free(session) == [2, 2]
    session.ledger.check_invariants()

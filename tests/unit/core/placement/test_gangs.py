"""Gangs at a sampler: what is answered of them, and commits that reserve all members or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.framework import COMMIT, Framework, Point, Registration
from argosy_core.job.reading.classes import GangGroup, HostPort, SchedulingClass
from argosy_core.job.tables.members import Members, number_of
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
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
from argosy_core.plugins import build_framework

GANG, SINGLE = 1, 2


def group(cpu: int, count: int, *, ports: Sequence[HostPort] = (), **more: object) -> GangGroup:
    """Return a sub-group of as many pods of some cores as it needs."""
    pod = SchedulingClass(requests=(("cpu", cpu),), host_ports=tuple(ports))
    return GangGroup(pod=pod, minimum=count, maximum=count, **more)  # type: ignore[arg-type]


def session_of(
    *groups: GangGroup,
    nodes: Mapping[str, Mapping[str, str]] | int = 4,
    topology: Sequence[str] = (),
    framework: Framework | None = None,
    checks: Framework | None = None,
) -> SamplerSession:
    """Return a session of a cluster of nodes of four cores, by name with their labels or by number."""
    ledger = NodeLedger(topology=topology)
    labels = {f"n{number}": {} for number in range(nodes)} if isinstance(nodes, int) else nodes
    ledger.put_nodes([NodeSpec(name=name, total={"cpu": 4}, labels=own) for name, own in labels.items()])
    session = SamplerSession(ledger, NodeSampler(ledger, framework, checks=checks), np.random.default_rng(1))
    session.define([(GANG, SchedulingClass.of_gang(groups)), (SINGLE, SchedulingClass(requests=(("cpu", 1),)))])
    nothing = np.zeros(0, np.int32)
    session.take_placements(
        Placements(members=Members.of([], []), class_ids=nothing, node=nothing, nodes=()), is_last=True
    )
    return session


def ask(session: SamplerSession, *class_ids: int) -> SampleReply:
    """Ask for some classes."""
    count = len(class_ids)
    return session.sample(
        1,
        SampleRequest(
            class_ids=np.array(class_ids, np.int32),
            wanted=np.ones(count, np.int32),
            complete=np.zeros(count, np.int8),
            resources=("cpu",),
            nodes_to_sample_ratio=1.0,
        ),
    )


def commit(
    session: SamplerSession, handle: int, count: int, *, numbers: Sequence[int] = (), avoid: Sequence[int] = ()
) -> CommitReply:
    """Commit the members of a gang."""
    member = np.array(numbers or range(count))
    return session.commit(
        1,
        CommitRequest(
            members=Members.of([handle] * member.size, [1] * member.size, member),
            class_ids=np.full(member.size, GANG, np.int32),
            offset=np.array([0] + [len(avoid)] * member.size, np.int32),
            candidate=np.array(avoid, np.int32),
        ),
    )


def test_gang_that_fits_has_the_whole_cluster_for_candidate_among_the_others() -> None:
    """Its candidate stands where its part of the answer is; those of other classes are nodes."""
    reply = ask(session_of(group(3, 2)), SINGLE, GANG, SINGLE)
    assert np.diff(reply.offset).tolist()[1] == 1
    of_gang = reply.candidate[reply.offset[1] : reply.offset[2]]
    assert reply.node[of_gang].tolist() == [-1]
    assert reply.free[of_gang].tolist() == [[16]]
    others = np.delete(reply.candidate, reply.offset[1])
    assert (reply.node[others] >= 0).all()
    assert reply.reason.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("groups", "reason", "miss"),
    [
        ([group(3, 3)], WaitReason.NO_ROOM, "2 of 3 pods fit now"),
        ([group(4, 2), group(1, 8, name="w")], WaitReason.NO_ROOM, "2 of 2 pods fit, 8 of 8 pods of w fit, each by"),
        ([group(3, 5)], WaitReason.MISMATCH, "4 of 5 pods fit even if nothing else runs"),
        ([group(5, 1)], WaitReason.MISMATCH, "0 of 1 pods fit even if"),
        ([group(2, 4, max_hops=0)], WaitReason.MISMATCH, "2 of 4 pods fit within 0 hops even if"),
        ([group(1, 13, whole_nodes=True)], WaitReason.NO_ROOM, "8 of 13 pods fit on whole nodes"),
    ],
)
def test_gang_without_room_says_how_many_pods_fit(groups: list[GangGroup], reason: WaitReason, miss: str) -> None:
    """No room if it would fit in an empty cluster, else a mismatch; with the numbers either way."""
    session = session_of(*groups)
    occupied = [(0, 2), (1, 2)]
    for row, cores in occupied:
        session.define([(10 + row, SchedulingClass(requests=(("cpu", cores),)))])
        line = CommitRequest(
            members=Members.of([90 + row], [1]),
            class_ids=np.array([10 + row], np.int32),
            offset=np.array([0, 1], np.int32),
            candidate=np.array([row], np.int32),
        )
        assert session.commit(1, line).outcome[0] == CommitOutcome.PLACED
    reply = ask(session, GANG)
    assert not reply.candidate.size
    assert (WaitReason(int(reply.reason[0])), miss in reply.nearest_misses[0]) == (reason, True), reply.nearest_misses


def test_commit_is_repeated_with_the_same_answer_and_released_as_a_whole() -> None:
    """Members are keys of the ledger; what is released leaves nothing."""
    session = session_of(group(3, 3))
    first = commit(session, 7, 3)
    assert (first.outcome == CommitOutcome.PLACED).all()
    assert sorted(first.node.tolist()) == [0, 1, 2] or len(set(first.node.tolist())) == 3
    assert commit(session, 7, 3).node.tolist() == first.node.tolist()
    assert session.ledger.placement_count == 3
    session.release(1, Members.of([7] * 3, [1] * 3, np.arange(3)))
    assert (session.ledger.placement_count, session.ledger.totals().free[0]) == (0, 16)


@pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 2, 3], [1, 2, 0], [0, 1, 1], [0, 1, 2, number_of(0, 1)]])
def test_gang_asked_for_in_part_is_not_placed(numbers: list[int]) -> None:
    """Only all members that it needs, in order, are a gang."""
    session = session_of(group(1, 3))
    reply = commit(session, 7, 3, numbers=numbers)
    assert reply.outcome.tolist() == [CommitOutcome.CONFLICT] * len(numbers)
    assert session.ledger.placement_count == 0


def test_replacement_is_placed_where_its_peers_are_near() -> None:
    """Within the limit of hops of those that are there, else nowhere; not on a node that is avoided; repeatable."""
    nodes = {f"n{number}": {"rack": f"r{number // 3}"} for number in range(6)}
    session = session_of(group(4, 2, max_hops=2), nodes=nodes, topology=("rack",))
    first = commit(session, 7, 2).node.tolist()
    other = number_of(1, 1)
    session.release(1, Members.of([7], [1], np.array([1])))
    rack = {node for node in range(6) if node // 3 == first[0] // 3}
    (avoided,) = rack - set(first)
    reply = commit(session, 7, 1, numbers=[other], avoid=[first[1]])
    assert (reply.outcome.tolist(), reply.node.tolist()) == ([CommitOutcome.PLACED], [avoided])
    assert commit(session, 7, 1, numbers=[other]).node.tolist() == [avoided]
    session.release(1, Members.of([7], [1], np.array([other])))
    full = commit(session, 7, 1, numbers=[number_of(1, 2)], avoid=[first[1], avoided])
    assert full.outcome.tolist() == [CommitOutcome.CONFLICT]
    assert session.ledger.placement_count == 1


def test_replacement_in_a_run_that_is_not_there_is_not_placed() -> None:
    """Nobody waits for it."""
    session = session_of(group(1, 3))
    assert commit(session, 7, 1, numbers=[number_of(1, 1)]).outcome.tolist() == [CommitOutcome.CONFLICT]
    assert session.ledger.placement_count == 0


def test_gang_with_a_placement_for_some_members_holds_what_it_has_and_gets_no_more() -> None:
    """Nobody asks so; nothing is held beyond what was listed."""
    session = session_of(group(1, 3))
    commit(session, 7, 3)
    session.release(1, Members.of([7], [1], np.array([1])))
    assert commit(session, 7, 3).outcome.tolist() == [CommitOutcome.CONFLICT] * 3
    assert session.ledger.placement_count == 2


def test_nodes_that_others_are_promised_are_kept_from_a_gang() -> None:
    """Those named at its first member."""
    session = session_of(group(3, 2))
    assert set(commit(session, 7, 2, avoid=[0, 1]).node.tolist()) == {2, 3}
    assert commit(session, 8, 2, avoid=[0]).outcome.tolist() == [CommitOutcome.CONFLICT] * 2
    assert set(commit(session, 8, 2).node.tolist()) == {0, 1}


def test_gang_is_placed_near_by_the_labels_of_its_nodes() -> None:
    """In one rack if that has room; within its hop limit or not at all; a level that no node has does not count."""
    nodes = {f"n{number}": {"rack": f"r{number // 3}", "hall": "h"} for number in range(6)}
    nodes = {name: nodes[name] for name in ("n0", "n3", "n1", "n4", "n2", "n5")}
    session = session_of(group(4, 3, max_hops=2), nodes=nodes, topology=("rack", "nothing", "hall"))
    names = session.ledger.nodes.names
    for handle in (1, 2):
        racks = {nodes[names[row]]["rack"] for row in commit(session, handle, 3).node.tolist()}
        assert len(racks) == 1
    session = session_of(group(4, 4, max_hops=2), nodes=nodes, topology=("rack",))
    assert "3 of 4 pods fit within 2 hops" in ask(session, GANG).nearest_misses[0]
    assert ask(session_of(group(4, 4, max_hops=4), nodes=nodes, topology=("rack",)), GANG).candidate.size == 1


@pytest.mark.parametrize(("max_hops", "fits"), [(0, False), (1, False), (2, True)])
def test_without_labels_all_nodes_are_next_to_each_other(max_hops: int, *, fits: bool) -> None:
    """A cluster none of whose nodes has a level's label has no levels; what no placement can keep is a mismatch."""
    reply = ask(session_of(group(4, 2, max_hops=max_hops), topology=("rack", "hall")), GANG)
    assert bool(reply.candidate.size) is fits
    told = (WaitReason.NONE, "") if fits else (WaitReason.MISMATCH, f"1 of 2 pods fit within {max_hops} hops even if")
    assert (WaitReason(int(reply.reason[0])), reply.nearest_misses[0][: len(told[1])]) == told


def test_pods_with_host_ports_are_on_nodes_of_their_own() -> None:
    """One node gives a port out once; sub-groups that take the same are refused."""
    port = HostPort("TCP", 80)
    session = session_of(group(1, 4, ports=[port]))
    assert sorted(commit(session, 7, 4).node.tolist()) == [0, 1, 2, 3]
    assert ask(session, GANG).reason[0] == WaitReason.NO_ROOM
    with pytest.raises(InvalidRequest, match="one port"):
        SchedulingClass.of_gang([group(1, 1, ports=[port]), group(2, 1, ports=[port])])


def test_list_of_a_new_leader_is_booked_by_what_each_member_asks_for() -> None:
    """After a restart the ledger holds as much as before; a number that the gang has not is refused."""
    session = session_of(group(1, 1), group(3, 2))
    commit(session, 7, 3)
    free = session.ledger.nodes.free.copy()
    restarted = session_of(group(1, 1), group(3, 2))
    members = Members.of([7] * 3, [1] * 3, np.arange(3))
    rows = session.ledger.nodes_of(members)
    restarted.ledger.take_list(members, np.full(3, GANG), rows)
    assert np.array_equal(restarted.ledger.nodes.free, free)
    restarted.ledger.check_invariants()
    with pytest.raises(InvalidRequest, match="not defined so"):
        restarted.ledger.take_list(Members.of([7], [1], np.array([3])), np.array([GANG]), rows[:1])


def test_gang_that_waits_is_told_when_it_fits() -> None:
    """Not when a node rises that is not enough, and once."""
    session = session_of(group(4, 2), nodes=2)
    commit(session, 7, 2)
    assert ask(session, GANG).reason[0] == WaitReason.NO_ROOM
    assert session.sampler.waiting_count == 1
    session.release(1, Members.of([7], [1], np.array([0])))
    assert session.sampler.take_fitting()[0].tolist() == []
    session.release(1, Members.of([7], [1], np.array([1])))
    assert session.sampler.take_fitting()[0].tolist() == [GANG]
    assert session.sampler.take_fitting()[0].tolist() == []


class Refusing:
    """Refuses one node at one point."""

    def __init__(self, node: int) -> None:
        """Refuse a row."""
        self.node = node
        self.undone: list[tuple[int, int]] = []

    def judge(self, batch: object) -> np.ndarray:
        """Accept all other nodes."""
        accepted: np.ndarray = batch.nodes != self.node  # type: ignore[attr-defined]
        return accepted

    def undo(self, batch: object) -> None:
        """Take note."""
        self.undone += batch.members.pairs()  # type: ignore[attr-defined]


@pytest.mark.parametrize("point", [Point.POST_SCORE, Point.RESERVE])
def test_gang_of_which_a_plugin_refuses_one_pod_is_refused_whole(point: Point) -> None:
    """What was reserved for the others is given back, and the plugin told."""
    plugin = Refusing(2)
    framework = build_framework()
    framework.register(Registration(name="refusing", point=point, function=plugin.judge))
    framework.register(Registration(name="refusing", point=Point.UNRESERVE, function=plugin.undo))
    session = session_of(group(4, 4), framework=framework)
    assert commit(session, 7, 4).outcome.tolist() == [CommitOutcome.REFUSED] * 4
    assert session.ledger.placement_count == 0
    assert session.ledger.totals().free[0] == 16
    session.ledger.check_invariants()
    assert len(plugin.undone) == (4 if point is Point.RESERVE else 0)


def test_gang_of_which_a_check_finds_one_pod_in_conflict_is_rolled_back_whole() -> None:
    """It has met a conflict, as if a node had been full."""
    checks = Framework(kind=COMMIT)
    checks.register(Registration(name="refusing", point=Point.CHECK_CONFLICTS, function=Refusing(2).judge))
    session = session_of(group(4, 4), checks=checks)
    assert commit(session, 7, 4).outcome.tolist() == [CommitOutcome.CONFLICT] * 4
    assert session.ledger.placement_count == 0
    assert session.ledger.totals().free[0] == 16
    session.ledger.check_invariants()


def ask_where(session: SamplerSession, *class_ids: int, kept: tuple[int, ...] = ()) -> list[list[int]]:
    """Return the nodes that could hold each of some classes if no runs were there; kept ones are for no gang."""
    count = len(class_ids)
    request = SampleRequest(
        class_ids=np.array(class_ids, np.int32),
        wanted=np.ones(count, np.int32),
        complete=np.ones(count, np.int8),
        resources=("cpu",),
        nodes_to_sample_ratio=1.0,
        for_promise=np.ones(count, np.bool_),
        kept=np.array(kept, np.int32),
    )
    reply = session.sample(1, request)
    return [part.tolist() for part in np.split(reply.node[reply.could_hold], reply.could_hold_offset[1:-1])]


def test_nodes_that_could_hold_a_gang_are_those_of_which_least_must_come_free() -> None:
    """As many as it needs, near enough; they stand beside those of other classes."""
    nodes = {f"n{number}": {"rack": f"r{number // 2}"} for number in range(6)}
    session = session_of(group(4, 2, max_hops=2), nodes=nodes, topology=("rack",))
    for row, cores in enumerate((1, 4, 2, 2, 1, 4)):
        session.define([(10 + row, SchedulingClass(requests=(("cpu", cores),)))])
        line = CommitRequest(
            members=Members.of([90 + row], [1]),
            class_ids=np.array([10 + row], np.int32),
            offset=np.array([0, 1], np.int32),
            candidate=np.array([row], np.int32),
        )
        session.commit(1, line)
    single, gang, again = ask_where(session, SINGLE, GANG, SINGLE)
    assert gang == [2, 3]
    assert sorted(single) == sorted(again) == list(range(6))
    single, gang = ask_where(session, SINGLE, GANG, kept=(3,))
    assert (sorted(single), gang) == (list(range(6)), [0, 1])
    assert ask_where(session, GANG, kept=(0, 3, 5)) == [[]]
    assert ask_where(session_of(group(5, 2)), GANG) == [[]]

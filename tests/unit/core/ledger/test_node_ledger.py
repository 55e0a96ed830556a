"""The node ledger: reservations, observed pods, lists, nodes that change."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest, InvariantViolation
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec

CORE, BIG, PORT = 1, 2, 3
NODES = ("a", "b", "c")
TCP80 = HostPort("TCP", 80)


def make_ledger() -> NodeLedger:
    """Three nodes of 4 cores and 1000 bytes; classes of 1 core, 3 cores, and 1 core with a host port."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=name, total={"cpu": 4000, "memory": 1000, "pods": 10}) for name in NODES])
    ledger.define_class(CORE, SchedulingClass(requests=(("cpu", 1000), ("memory", 100))))
    ledger.define_class(BIG, SchedulingClass(requests=(("cpu", 3000), ("memory", 100))))
    ledger.define_class(PORT, SchedulingClass(requests=(("cpu", 1000),), host_ports=(TCP80,)))
    return ledger


def place(ledger: NodeLedger, *placements: tuple[int, int, int]) -> None:
    """Reserve and keep runs given as (handle, class id, node)."""
    handles, class_ids, nodes = (np.array(column) for column in zip(*placements, strict=True))
    slots = ledger.classes.slots(class_ids)
    ledger.reserve(slots, nodes.astype(np.int32))
    ledger.keep(keys(*handles.tolist()), slots, nodes.astype(np.int32))


def pods(*rows: tuple[int, int, int, bool], cpu: int = 1000, memory: int = 100, **fields: object) -> PodEvents:
    """Events given as (handle or 0, uid number, node, ended); all ask for the same."""
    uids = np.zeros((len(rows), 16), np.uint8)
    uids[:, 0] = [uid for _, uid, _, _ in rows]
    uids[:, 15] = 1
    return PodEvents(
        members=keys(*(handle for handle, _, _, _ in rows)),
        uids=uids,
        nodes=np.array([node for _, _, node, _ in rows], np.int32),
        ended=np.array([ended for _, _, _, ended in rows], np.bool_),
        requests=np.array([[cpu, memory, 1]] * len(rows), np.int64).reshape(len(rows), 3),
        **fields,  # type: ignore[arg-type]
    )


def listed(ledger: NodeLedger, *placements: tuple[int, int, int]) -> tuple[int, int, int]:
    """Take a full list of (handle, class id, node); answer how many were added, moved, dropped."""
    columns = np.array(placements, np.int64).reshape(len(placements), 3).T
    outcome = ledger.take_list(keys(*columns[0].tolist()), columns[1].astype(np.int32), columns[2].astype(np.int32))
    return outcome.added_count, outcome.moved_count, outcome.dropped_count


def free_cpu(ledger: NodeLedger) -> list[int]:
    """Free millicores per node; the books are checked on the way."""
    ledger.check_invariants()
    return ledger.nodes.free[0].tolist()


def keys(*handles: int) -> Members:
    """Member 0 of the first run of each job; no run for 0."""
    return Members.of(np.array(handles, np.int64), np.array(handles, np.int64) > 0)


def test_members_of_one_run_are_reserved_on_two_nodes_and_released_apart() -> None:
    """A member is what is placed: the other one of its run stays where it is."""
    ledger = make_ledger()
    both = Members.of([7, 7], [3, 3], np.array([0, 1]))
    nodes, slots = np.array([0, 2], np.int32), ledger.classes.slots(np.array([BIG, CORE]))
    ledger.reserve(slots, nodes)
    ledger.keep(both, slots, nodes)
    assert (free_cpu(ledger), ledger.placement_count) == ([1000, 4000, 3000], 2)
    assert ledger.nodes_of(Members.of([7] * 3, [3, 3, 3], np.array([1, 0, 2]))).tolist() == [2, 0, -1]
    assert ledger.release(both[:1]) == 1
    assert (free_cpu(ledger), ledger.nodes_of(both).tolist()) == ([4000, 4000, 3000], [-1, 2])
    outcome = ledger.take_list(both, np.array([BIG, CORE]), nodes)
    assert (outcome.added_count, outcome.dropped_count, free_cpu(ledger)) == (1, 0, [1000, 4000, 3000])
    assert ledger.release(both) == 2


def test_pod_of_one_member_ends_that_member_alone() -> None:
    """What is observed is a member's pod; the run's other members keep what they hold."""
    ledger = make_ledger()
    both = Members.of([7, 7], [1, 1], np.array([0, 1]))
    for ended in ([False, False], [True, False]):
        events = pods((0, 1, 0, ended[0]), (0, 2, 1, ended[1]))
        ledger.observe(replace(events, members=both))
    assert (free_cpu(ledger), ledger.nodes_of(both).tolist()) == ([4000, 3000, 4000], [-1, 1])


def test_reservation_is_immediate_and_may_go_negative_until_rolled_back() -> None:
    """What is about to be committed is offered to nobody else, fits or not (seed 000)."""
    ledger = make_ledger()
    slots, nodes = ledger.classes.slots(np.array([BIG, BIG])), np.array([0, 0], np.int32)
    ledger.reserve(slots, nodes)
    assert ledger.nodes.free[:, 0].tolist() == [-2000, 800, 8]
    ledger.roll_back(slots[1:], nodes[1:])
    ledger.keep(keys(7), slots[:1], nodes[:1])
    assert free_cpu(ledger) == [1000, 4000, 4000]
    assert ledger.nodes_of(keys(7, 8)).tolist() == [0, -1]
    assert ledger.placement_count == 1


def test_release_ends_placements_and_may_be_repeated() -> None:
    """A release by fact is idempotent; runs that are not known, or named twice, do no harm."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0), (2, BIG, 0), (3, CORE, 1))
    assert free_cpu(ledger) == [0, 3000, 4000]
    assert ledger.release(keys(2, 2, 99)) == 1
    assert ledger.release(keys(2)) == 0
    assert free_cpu(ledger) == [3000, 3000, 4000]
    assert ledger.release(keys(1, 3)) == 2
    assert free_cpu(ledger) == [4000, 4000, 4000]


def test_observed_pod_replaces_its_placement_and_never_adds() -> None:
    """The pod of a run counts once: as observed, wherever it stands and whatever it asks for."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0))
    assert ledger.observe(pods((1, 1, 0, False))).replaced_count == 0
    assert free_cpu(ledger) == [3000, 4000, 4000]
    assert ledger.observe(pods((1, 1, 1, False), cpu=2500)).replaced_count == 1
    assert free_cpu(ledger) == [4000, 1500, 4000]
    assert ledger.nodes_of(keys(1)).tolist() == [1]


def test_first_pods_of_a_bag_leave_room_for_those_that_have_not_appeared() -> None:
    """A run of several pods keeps what its class asks for until it ends, or its node could be given away twice."""
    ledger = make_ledger()
    place(ledger, (1, BIG, 0))
    ledger.observe(pods((1, 1, 0, False), (2, 2, 1, False)))
    assert free_cpu(ledger) == [1000, 3000, 4000]
    listed(ledger, (1, BIG, 0), (2, BIG, 1))
    assert free_cpu(ledger) == [1000, 1000, 4000]
    ledger.observe(pods((1, 1, 0, False), (2, 2, 1, False), cpu=3500))
    assert free_cpu(ledger) == [500, 500, 4000]
    ledger.observe(pods((1, 1, 0, True), (2, 2, 1, True)))
    assert free_cpu(ledger) == [4000, 4000, 4000]


def test_end_of_the_pod_ends_the_placement() -> None:
    """What the pod did counts; the leader's later release finds nothing left to do."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0), (2, CORE, 0))
    ledger.observe(pods((1, 1, 0, False)))
    assert ledger.observe(pods((1, 1, 0, True), (2, 2, 0, True))).ended_count == 2
    assert free_cpu(ledger) == [4000, 4000, 4000]
    assert ledger.release(keys(1, 2)) == 0


def test_release_of_a_run_whose_pod_still_runs_keeps_what_the_pod_takes() -> None:
    """The leader may let go, but a pod that is there takes its room until it is seen to end."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0))
    ledger.observe(pods((1, 1, 0, False)))
    assert ledger.release(keys(1)) == 0
    assert free_cpu(ledger) == [3000, 4000, 4000]
    assert ledger.observe(pods((1, 1, 0, True))).ended_count == 1
    assert free_cpu(ledger) == [4000, 4000, 4000]


def test_end_of_an_older_pod_of_the_run_does_not_end_the_newer() -> None:
    """Ends are by uid: a late event of a pod that was replaced changes nothing."""
    ledger = make_ledger()
    ledger.observe(pods((1, 1, 0, False)))
    ledger.observe(pods((1, 2, 1, False)))
    assert ledger.observe(pods((1, 1, 0, True))).ended_count == 0
    assert free_cpu(ledger) == [4000, 3000, 4000]


def test_pod_that_claims_a_run_placed_elsewhere_counts_beside_it() -> None:
    """A pod of 100m with the labels of a run of three cores neither moves nor shrinks the run's placement."""
    ledger = make_ledger()
    place(ledger, (1, BIG, 0))
    forged = pods((1, 9, 1, False), cpu=100)
    ledger.observe(ledger.disown(forged))
    assert free_cpu(ledger) == [1000, 3900, 4000]
    ledger.observe(ledger.disown(pods((1, 1, 0, False), cpu=3000)))
    assert free_cpu(ledger) == [1000, 3900, 4000]
    ledger.observe(ledger.disown(pods((1, 1, 0, True), cpu=3000)))
    ledger.release(keys(1))
    assert free_cpu(ledger) == [4000, 3900, 4000]
    ledger.observe(ledger.disown(pods((1, 9, 1, True), cpu=100)))
    assert free_cpu(ledger) == [4000, 4000, 4000]
    ledger.check_invariants()


class PlainPods:
    """What `take_pods` makes of pods of one member, told event by event: the model that it is compared with."""

    def __init__(self) -> None:
        """Start without pods."""
        self.live: dict[tuple[int, int], dict[bytes, list[int]]] = {}
        self.first: dict[tuple[int, int], bytes] = {}
        self.several: set[tuple[int, int]] = set()

    def fold(self, events: PodEvents) -> PodEvents:
        """Return events as they count."""
        uids, requests, ended = events.uids.copy(), events.requests.copy(), events.ended.copy()
        for row, key in enumerate(events.members.pairs()):
            if key[1] == 0:
                continue
            uid, pods = uids[row].tobytes(), self.live.setdefault(key, {})
            if not pods and key not in self.several:
                self.first[key] = uid
            if ended[row]:
                pods.pop(uid, None)
            else:
                pods[uid] = requests[row].tolist()
            if len(pods) > 1:
                self.several.add(key)
            if key in self.several:
                uids[row] = np.frombuffer(self.first[key], np.uint8)
                ended[row] = not pods
                requests[row] = np.sum(list(pods.values()), axis=0) if pods else requests[row]
            if not pods:
                self.several.discard(key)
        return replace(events, uids=uids, requests=requests, ended=ended)


def test_pods_taken_at_once_are_taken_as_step_by_step() -> None:
    """Pods of runs with one pod and several, forged and unmanaged ones, new, repeated and ended, in batches."""
    chance = np.random.default_rng(11)
    one, other, other_pods = make_ledger(), make_ledger(), PlainPods()
    for ledger in (one, other):
        place(ledger, *((handle, CORE, handle % 3) for handle in range(1, 7)))
    several = 0
    for size in [1, 2, 5, 8] * 15:
        rows = [(int(chance.integers(9)), int(chance.integers(1, 20))) for _ in range(size)]
        events = pods(
            *((handle, uid, (handle + (uid % 7 == 0)) % 3, bool(chance.random() < 0.4)) for handle, uid in rows),
            cpu=int(chance.integers(1, 9)) * 100,
        )
        folded = other_pods.fold(other.disown(events))
        several += len(other_pods.several)
        other.observe(folded)
        taken = one.take_pods(events, shapes=events.requests, shape_column=np.arange(size, dtype=np.int32))
        assert [taken.uids.tolist(), taken.members.pairs(), taken.requests.tolist(), taken.ended.tolist()] == [
            folded.uids.tolist(),
            folded.members.pairs(),
            folded.requests.tolist(),
            folded.ended.tolist(),
        ]
        assert (free_cpu(one), one.placement_count) == (free_cpu(other), other.placement_count)
        assert one.totals().free.tolist() == other.totals().free.tolist()
    assert several > 100


def test_events_of_one_pod_in_one_batch_apply_in_order() -> None:
    """Seen, moved and ended within one batch leaves nothing; seen anew behind an end stays."""
    ledger = make_ledger()
    batch = pods(
        (1, 1, 0, False), (0, 9, 2, False), (1, 1, 1, False), (1, 1, 1, True), (0, 9, 2, True), (2, 5, 2, True),
        (2, 6, 2, False),
    )  # fmt: skip
    outcome = ledger.observe(batch)
    assert (outcome.added_count, outcome.replaced_count, outcome.ended_count) == (3, 1, 2)
    assert free_cpu(ledger) == [4000, 4000, 3000]


def test_unmanaged_pods_count_with_what_they_ask_for() -> None:
    """A pod without our label takes its room under its uid, and is no placement."""
    ledger = make_ledger()
    assert ledger.observe(pods((0, 1, 0, False), (0, 2, 0, False), (0, 3, -1, False))).added_count == 2
    assert free_cpu(ledger) == [2000, 4000, 4000]
    assert ledger.totals().free.tolist() == (ledger.totals().allocatable - [2000, 200, 2]).tolist()
    assert ledger.totals().placement_count == 0
    assert ledger.observe(pods((0, 2, 0, True), (0, 7, 0, True))).ended_count == 1
    assert free_cpu(ledger) == [3000, 4000, 4000]


def test_pod_without_a_node_takes_nothing_yet() -> None:
    """Only a pod that stands on a node takes room there."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0))
    ledger.observe(pods((1, 1, -1, False), (2, 2, -1, False)))
    assert free_cpu(ledger) == [3000, 4000, 4000]


def test_full_list_drops_what_it_lacks_unless_a_pod_was_observed() -> None:
    """A new leader's list is the truth about placements, the cluster's pods about pods."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0), (2, CORE, 0), (3, CORE, 1))
    ledger.observe(pods((2, 2, 0, False), (0, 9, 2, False)))
    assert listed(ledger, (3, BIG, 2), (4, CORE, 1)) == (1, 1, 1)
    assert free_cpu(ledger) == [3000, 3000, 0]
    assert ledger.nodes_of(keys(1, 2, 3, 4)).tolist() == [-1, 0, 2, 1]
    ledger.observe(pods((2, 2, 0, True)))
    assert free_cpu(ledger) == [4000, 3000, 0]


def test_full_list_holds_pods_that_were_seen_first() -> None:
    """After a restart pods are seen before the list; the list then adds the leader's hold, not a second placement."""
    ledger = make_ledger()
    ledger.observe(pods((1, 1, 0, False), cpu=1500))
    assert listed(ledger, (1, CORE, 2)) == (0, 0, 0)
    assert free_cpu(ledger) == [2500, 4000, 4000]
    ledger.observe(pods((1, 1, 0, True)))
    assert free_cpu(ledger) == [4000, 4000, 4000]


def test_full_list_does_not_bring_back_a_run_that_was_seen_to_end() -> None:
    """The leader may not know yet that the pod ended; until it lets go the run stays ended."""
    ledger = make_ledger()
    ledger.observe(pods((1, 1, 0, True)))
    place(ledger, (2, CORE, 0))
    ledger.observe(pods((2, 2, 0, True)))
    assert listed(ledger, (1, CORE, 0), (2, CORE, 0)) == (0, 0, 0)
    assert free_cpu(ledger) == [4000, 4000, 4000]
    ledger.release(keys(1, 2))
    assert len(ledger._observer.ended[0]) == 0


def test_late_deletions_of_released_runs_cost_no_memory() -> None:
    """A finished pod is deleted long after its run was released; nothing is kept for it."""
    ledger = make_ledger()
    listed(ledger)
    place(ledger, (1, CORE, 0))
    ledger.observe(pods((1, 1, 0, True)))
    ledger.release(keys(1))
    ledger.observe(pods((1, 1, 0, True)))
    assert len(ledger._observer.ended[0]) == 0


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(1, 99, 0)], "names class 99"),
        ([(1, CORE, 3)], "node index"),
        ([(1, CORE, 0), (1, CORE, 1)], "a member of a run twice"),
    ],
    ids=["unknown-class", "unknown-node", "repeated-run"],
)
def test_full_list_that_makes_no_sense_changes_nothing(rows: Sequence[tuple[int, int, int]], text: str) -> None:
    """A bad list is refused whole."""
    ledger = make_ledger()
    place(ledger, (5, CORE, 0))
    with pytest.raises(InvalidRequest, match=text):
        listed(ledger, *rows)
    assert free_cpu(ledger) == [3000, 4000, 4000]


def test_observe_all_ends_pods_that_the_list_lacks() -> None:
    """After a lost watch the full list of pods is the truth; placements without a pod stay."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0), (2, CORE, 1))
    ledger.observe(pods((1, 1, 0, False), (0, 8, 2, False), (0, 9, 2, False)))
    outcome = ledger.observe_all(pods((0, 9, 2, False)))
    assert outcome.ended_count == 2
    assert free_cpu(ledger) == [4000, 3000, 3000]


def test_observe_all_ends_a_run_of_which_only_pods_that_ended_are_left() -> None:
    """A bag is known by its first pod; after a lost watch that one may be gone, and another be there that ended."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0))
    ledger.observe(pods((1, 1, 0, False)))
    outcome = ledger.observe_all(pods((1, 2, 0, True)))
    assert (outcome.ended_count, ledger.placement_count) == (1, 0)
    assert free_cpu(ledger) == [4000, 4000, 4000]


def test_placement_on_a_node_not_seen_yet_counts_once_the_node_comes() -> None:
    """A list may name a node before the node is seen."""
    ledger = make_ledger()
    rows = ledger.rows_of_names(["late", "a"])
    assert rows.tolist() == [3, 0]
    listed(ledger, (1, BIG, 3))
    ledger.put_nodes([NodeSpec(name="late", total={"cpu": 4000, "memory": 1000})])
    assert free_cpu(ledger) == [4000, 4000, 4000, 1000]


def test_removed_node_keeps_its_placements_until_they_end_by_fact() -> None:
    """A node that went takes no part in totals; if it comes back its placements are still booked."""
    ledger = make_ledger()
    place(ledger, (1, BIG, 0))
    assert ledger.remove_nodes(["a"]).tolist() == [0]
    assert free_cpu(ledger) == [-3000, 4000, 4000]
    assert ledger.totals().free.tolist() == [8000, 2000, 20]
    ledger.put_nodes([NodeSpec(name="a", total={"cpu": 4000, "memory": 1000, "pods": 10})])
    assert free_cpu(ledger) == [1000, 4000, 4000]
    ledger.release(keys(1))
    assert free_cpu(ledger) == [4000, 4000, 4000]


def test_new_resources_join_every_column() -> None:
    """A resource that a node or a class names first is 0 for all that came before."""
    ledger = make_ledger()
    place(ledger, (1, CORE, 0))
    ledger.define_class(9, SchedulingClass(requests=(("example.com/gpu", 2),)))
    ledger.put_nodes([NodeSpec(name="g", total={"cpu": 1000, "memory": 10, "example.com/gpu": 4, "disk": 5})])
    place(ledger, (2, 9, 3))
    assert ledger.axis.names == ("cpu", "memory", "pods", "example.com/gpu", "disk")
    assert ledger.nodes.free[:, 3].tolist() == [1000, 10, 109, 2, 5]
    assert free_cpu(ledger) == [3000, 4000, 4000, 1000]
    with pytest.raises(InvalidRequest, match=r"not \(1, 5\)"):
        ledger.observe(pods((1, 1, 0, False)))


def test_host_ports_follow_placements() -> None:
    """Ports are held from reservation to end, also for unmanaged pods and for pods seen before their class."""
    ledger = make_ledger()
    place(ledger, (1, PORT, 0))
    ledger.observe(pods((0, 7, 1, False), host_ports={0: (TCP80,)}))
    ledger.observe(pods((2, 8, 2, False)))
    listed(ledger, (1, PORT, 0), (2, PORT, 2))
    assert ledger.nodes.ports.counts() == {(TCP80, 0): 1, (TCP80, 1): 1, (TCP80, 2): 1}
    ledger.observe(pods((1, 5, 0, True), (0, 7, 1, True)))
    assert ledger.nodes.ports.counts() == {(TCP80, 2): 1}
    assert free_cpu(ledger) == [4000, 4000, 3000]


def test_slots_are_used_again_and_many_placements_fit() -> None:
    """The table grows with what is live at once, not with all that ever was."""
    ledger = make_ledger()
    for begin in range(0, 20_000, 1000):
        slots, nodes = np.zeros(1000, np.int32), np.zeros(1000, np.int32)
        ledger.reserve(slots, nodes)
        ledger.keep(keys(*range(begin + 1, begin + 1001)), slots, nodes)
        ledger.release(keys(*range(begin + 1, begin + 1001)))
    assert len(ledger._placements.handle) <= 2048
    assert free_cpu(ledger) == [4000, 4000, 4000]


@pytest.mark.parametrize("damage", ["free", "hold", "port", "index"])
def test_check_invariants_finds_damage(damage: str) -> None:
    """The check compares books and placements, so a fault of ours does not stay hidden."""
    ledger = make_ledger()
    place(ledger, (1, PORT, 0))
    ledger.observe(pods((0, 7, 1, False)))
    ledger.check_invariants()
    if damage == "free":
        ledger.nodes.free[0, 1] += 1
    elif damage == "hold":
        ledger._placements.hold[ledger._placements.slots(keys(1))] = 0
    elif damage == "port":
        ledger.nodes.take_ports(1, (TCP80,))
    else:
        ledger._placements._index.clear()
    with pytest.raises(InvariantViolation):
        ledger.check_invariants()


def test_resource_that_only_pods_name_gets_a_column_everywhere() -> None:
    """An unmanaged pod may ask for what no node and no class has named so far; its node is short of it then."""
    ledger = make_ledger()
    ledger.extend_axis(["example.org/gpu"])
    events = replace(pods((0, 5, 1, False)), requests=np.array([[1000, 100, 1, 2]]))
    ledger.observe(events)
    assert ledger.nodes.free[ledger.axis.index("example.org/gpu")].tolist() == [0, -2, 0]
    assert free_cpu(ledger) == [4000, 3000, 4000]


def test_run_that_was_placed_anew_after_its_pod_ended_is_let_go_by_one_release() -> None:
    """A commit that is repeated late takes room again; that its pod is known to have ended must not keep it taken."""
    ledger = make_ledger()
    place(ledger, (7, CORE, 0))
    ledger.observe(pods((7, 1, 0, False)))
    ledger.observe(pods((7, 1, 0, True)))
    place(ledger, (7, CORE, 1))
    assert free_cpu(ledger) == [4000, 3000, 4000]
    assert ledger.release(keys(7)) == 1
    assert free_cpu(ledger) == [4000, 4000, 4000]


def test_nodes_without_runs_have_what_runs_take_and_not_what_others_do() -> None:
    """For a gang that waits: what would be free if no run were there; the ledger itself stays as it is."""
    ledger = make_ledger()
    place(ledger, (1, BIG, 0), (2, CORE, 1))
    ledger.observe(pods((2, 1, 1, False), (0, 2, 1, False), cpu=1000))
    assert free_cpu(ledger) == [1000, 2000, 4000]
    empty = ledger.without_runs()
    assert empty.free[empty.axis.index("cpu"), :3].tolist() == [4000, 3000, 4000]
    assert free_cpu(ledger) == [1000, 2000, 4000]
    ledger.check_invariants()

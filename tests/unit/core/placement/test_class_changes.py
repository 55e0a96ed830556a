"""What a sampler remembers of classes when many leave the ledger's table: it stays with the classes that are left.

Source: design section 6, "Data layout".
"""

import numpy as np

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler, SampleReply, SampleRequest, WaitReason


def make_ledger(cores: list[int], classes: list[int]) -> NodeLedger:
    """Nodes with the given cores, and classes that ask for the given cores."""
    ledger = NodeLedger()
    ledger.put_nodes([NodeSpec(name=f"n{i}", total={"cpu": cpu, "memory": 1000}) for i, cpu in enumerate(cores)])
    for class_id, cpu in enumerate(classes):
        ledger.define_class(class_id, SchedulingClass(requests=(("cpu", cpu),)))
    return ledger


def ask(sampler: NodeSampler, class_id: int, *, wanted: int = 1, complete: bool = False) -> SampleReply:
    """Ask for candidates of a class on all nodes."""
    request = SampleRequest(
        class_ids=np.array([class_id], np.int32),
        wanted=np.array([wanted], np.int32),
        complete=np.array([complete], np.int8),
        resources=("cpu", "pods"),
        nodes_to_sample_ratio=1.0,
    )
    return sampler.sample(request, np.random.default_rng(0))


def drop_most(ledger: NodeLedger, kept: set[int]) -> None:
    """Tell and drop so many classes that the ledger takes another table for the rest."""
    before = ledger.classes
    for class_id in range(10_000, 12_500):
        ledger.define_class(class_id, SchedulingClass(requests=(("cpu", 1),)))
    ledger.keep_classes(kept)
    assert ledger.classes is not before


def test_class_that_waits_is_told_when_it_fits_although_others_have_left_the_table() -> None:
    """Slots are given anew; who waits is remembered by its class."""
    ledger = make_ledger([4], [1, 2, 8])
    sampler = NodeSampler(ledger)
    assert ask(sampler, 2).reason.tolist() == [WaitReason.MISMATCH]
    drop_most(ledger, {2})
    ledger.put_nodes([NodeSpec(name="n1", total={"cpu": 16, "memory": 1000})])
    fitting, room = sampler.take_fitting()
    assert (fitting.tolist(), room.tolist()) == ([2], [2])


def test_gang_that_waits_is_told_when_it_fits_although_others_have_left_the_table() -> None:
    """As any other class."""
    ledger = make_ledger([4], [1])
    pod = SchedulingClass(requests=(("cpu", 3),))
    ledger.define_class(7, SchedulingClass.of_gang([GangGroup(pod=pod, minimum=2, maximum=2)]))
    sampler = NodeSampler(ledger)
    assert ask(sampler, 7).reason.tolist() == [WaitReason.MISMATCH]
    drop_most(ledger, {7})
    ledger.put_nodes([NodeSpec(name="n1", total={"cpu": 4, "memory": 1000})])
    assert sampler.take_fitting()[0].tolist() == [7]


def test_what_is_remembered_of_a_full_cluster_is_of_no_class_that_takes_its_slot() -> None:
    """A small class is placed, though the slot it has now was that of one that fits nowhere."""
    ledger = make_ledger([4, 4], [8, 1])
    sampler = NodeSampler(ledger)
    assert ask(sampler, 0, complete=True).nearest_misses != ("",)
    drop_most(ledger, {1})
    assert ledger.classes.slots(np.array([1])).tolist() == [0]
    assert sorted(ask(sampler, 1, wanted=2).node.tolist()) == [0, 1]

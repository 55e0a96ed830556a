"""Scheduling classes as they are stored and read again."""

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.resources import MAX_AMOUNT


def test_parse_counts_amounts_above_what_can_be_counted_as_the_most() -> None:
    """A class that an earlier version stored stops no leader: it asks for more than any node has."""
    parsed = SchedulingClass.parse(b'{"requests":{"cpu":10000000000000000000,"memory":5}}')
    assert parsed.requests == (("cpu", MAX_AMOUNT), ("memory", 5))


@pytest.mark.parametrize(
    "definition",
    [
        b"{}",
        b"[]",
        b'{"requests":[]}',
        b'{"requests":{"cpu":null}}',
        b"{",
        b'{"requests":{"cpu":-1}}',
        b'{"requests":{"cpu":1},"runtime_classes":{"kata":-1}}',
    ],
)
def test_parse_refuses_what_is_no_definition(definition: bytes) -> None:
    """Nothing half read comes out, and nothing below 0, which would take from what a queue uses."""
    with pytest.raises(ValueError, match=r"."):
        SchedulingClass.parse(definition)


COORDINATOR = GangGroup(name="coordinator", pod=SchedulingClass(requests=(("cpu", 500),)), minimum=1, maximum=1)
WORKERS = GangGroup(
    name="workers",
    pod=SchedulingClass(requests=(("cpu", 4000), ("memory", 8)), node_selector=(("disk", "ssd"),)),
    minimum=2,
    maximum=4,
    max_hops=2,
    whole_nodes=True,
)


def test_a_gangs_class_asks_for_all_its_minima_and_is_read_as_it_was_written() -> None:
    """What counts jobs counts one of that size; sub-groups keep what their pods need."""
    gang = SchedulingClass.of_gang([COORDINATOR, WORKERS])
    assert gang.requests == (("cpu", 8500), ("memory", 16), ("pods", 3))
    assert SchedulingClass.parse(gang.definition()) == gang
    assert b"gang" not in WORKERS.pod.definition()


def test_a_members_number_says_its_sub_group_whatever_the_gang_has_grown_to() -> None:
    """The minima stand first, then what is beyond them."""
    assert SchedulingClass.of_gang([WORKERS, COORDINATOR]).member_groups.tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize(("minimum", "maximum"), [(0, 1), (3, 2), (1, 1 << 15)])
def test_a_sub_group_whose_numbers_contradict_each_other_is_refused(minimum: int, maximum: int) -> None:
    """Nothing is a gang of no pod, of more than its most, or of more than a run can have."""
    with pytest.raises(InvalidRequest, match="min <= max"):
        GangGroup(pod=WORKERS.pod, minimum=minimum, maximum=maximum)
    definition = SchedulingClass.of_gang([WORKERS]).definition()
    with pytest.raises(ValueError, match="not a scheduling class"):
        SchedulingClass.parse(definition.replace(b'"min":2', b'"min":9'))


def test_a_gang_without_sub_groups_or_of_too_many_pods_is_refused() -> None:
    """A run has at least one member, and no more than it can number."""
    most = GangGroup(pod=WORKERS.pod, minimum=1, maximum=600)
    for groups in ([], [most, most]):
        with pytest.raises(InvalidRequest, match="one sub-group or more"):
            SchedulingClass.of_gang(groups)

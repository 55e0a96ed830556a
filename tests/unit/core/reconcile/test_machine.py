"""The life of an object as a table: what may follow what, what is kept of an object in trouble, what always holds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.job.states import InvalidTransition, ObjectState
from argosy_core.job.tables.members import Members, member_key
from argosy_core.reconcile.invariants import check_table
from argosy_core.reconcile.machine import TRANSITIONS, Action, Event, Phase, look_up
from argosy_core.reconcile.object_table import MAX_HISTORY, ObjectTable, Stop
from argosy_core.reconcile.planning import plan_runs
from argosy_testkit.reconcile_world import World

PAGE = Path(__file__).parents[4] / "docs" / "executor.md"
KEY = member_key(7, 1)
NEEDS_UID = {Event.SEEN, Event.SEEN_OTHER, Event.REMOVED_OTHER}
"""Events that only an object can meet whose uid is known."""
FROM_OUTSIDE = (Event.SEEN_FIRST, Event.REMOVED, *NEEDS_UID, Event.CREATED, Event.NOT_CREATED, Event.NOT_DELETED)
HAS_UID = {Phase.PRESENT, Phase.DELETING, Phase.VANISHED, Phase.GONE}


def drawn(text: str) -> str:
    """Return the name of a phase or event as the diagram writes it."""
    return text.lower().replace("_", " ")


def table_with(
    *events: Event, in_trouble: bool = False
) -> tuple[ObjectTable, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return a table with one object to which some things have happened, and its slot."""
    table = ObjectTable()
    slots = table.add(Members.of_key(KEY))
    table.index.insert(*Members.of_key(KEY).columns, slots=slots.astype(np.int32))
    if in_trouble:
        table.trouble(int(slots[0]))
    for event in events:
        table.transit(slots, event)
    return table, slots


def test_diagram_shows_the_table() -> None:
    """Every change of phase stands in docs/executor.md with its events, and nothing else does."""
    changes: dict[tuple[str, str], list[str]] = {}
    for (phase, event), (after, _) in sorted(TRANSITIONS.items()):
        if phase != after:
            changes.setdefault((phase.name.lower(), after.name.lower()), []).append(drawn(event.name))
    diagram = PAGE.read_text().partition("stateDiagram-v2")[2].partition("```")[0]
    shown = re.findall(r"^ *(\w+) --> (\w+): (.+)$", diagram, flags=re.MULTILINE)
    assert {(before, after): events.split(", ") for before, after, events in shown} == changes


@pytest.mark.parametrize("names", [Phase, Event, Action], ids=["phases", "events", "actions"])
def test_page_explains_every_word_of_the_table(names: type[Phase | Event | Action]) -> None:
    """No phase, event or action is used that docs/executor.md does not name."""
    explained = set(re.findall(r"^\| ([a-z ]+) \| ", PAGE.read_text(), flags=re.MULTILINE))
    assert {drawn(one.name) for one in names} <= explained


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase != Phase.FREE])
def test_whatever_comes_from_outside_is_in_the_table(phase: Phase) -> None:
    """Late, lost and repeated news must not stop an executor: only its own decisions can be wrong."""
    for event in FROM_OUTSIDE:
        if event in NEEDS_UID and phase not in HAS_UID:
            continue
        if phase == Phase.CREATING and event == Event.NOT_DELETED:
            continue  # a deletion needs an object, and nothing is created again once it was seen
        assert (phase, event) in TRANSITIONS, f"{event.name} in {phase.name}"


@pytest.mark.parametrize("phase", Phase)
def test_creation_is_sent_of_what_was_never_seen_only(phase: Phase) -> None:
    """Create only while no pod of the run was ever reported."""
    assert ((phase, Event.CREATE) in TRANSITIONS) == (phase == Phase.ABSENT)
    assert all(after != Phase.ABSENT for (before, _), (after, _) in TRANSITIONS.items() if before in HAS_UID)


def test_arrays_are_the_table() -> None:
    """What is looked up for many objects at once is what the table says of each."""
    for phase in Phase:
        for event in Event:
            row = TRANSITIONS.get((phase, event))
            for events in (int(event), np.array([event], np.int8)):
                after, action = look_up(np.array([phase], np.int8), events)
                assert (int(after[0]), int(action[0])) == ((-1, 0) if row is None else (row[0], row[1]))


def test_event_that_cannot_happen_tells_the_object_s_history_and_changes_nothing() -> None:
    """The error names object, phase, event and what happened before; objects beside it stay as they were."""
    table, slots = table_with(Event.CREATE, Event.NOT_CREATED, Event.CREATE, Event.CREATED, in_trouble=True)
    both = np.concatenate([slots, table.add(Members.of([8], [1]))])
    with pytest.raises(InvalidTransition) as caught:
        table.transit(both[::-1], Event.CREATE)
    assert str(caught.value) == (
        "object 0 of run 7/1 is present, so create cannot follow; history: absent: create -> creating: not_created -> "
        "absent: create -> creating: created"
    )
    assert table.phase[both].tolist() == [Phase.PRESENT, Phase.ABSENT]


def test_history_is_kept_of_objects_in_trouble_only_and_is_bounded() -> None:
    """Tens of thousands of objects without trouble keep nothing; one that is retried for hours keeps the latest."""
    table, slots = table_with(*[Event.CREATE, Event.NOT_CREATED] * 50)
    assert table.troubles == {}
    record = table.trouble(int(slots[0]))
    for event in [Event.CREATE, Event.NOT_CREATED] * 50:
        table.transit(slots, event)
    assert record.story() == ("absent: create", "creating: not_created") * (MAX_HISTORY // 2)


def test_news_that_repeat_take_no_place_in_the_history() -> None:
    """A pod that is shown again and again does not push out how it came into trouble."""
    table, slots = table_with(Event.SEEN_FIRST, in_trouble=True)
    for _ in range(100):
        table.transit(slots, Event.SEEN)
    assert table.trouble(int(slots[0])).story() == ("absent: seen_first", "present: seen")


def test_ordinary_lives_leave_no_record(world: World) -> None:
    """Made, run, succeeded, deleted; stopped; a bag: none of these is trouble."""
    world.give([7, 8])
    world.give([9], "ConfigMap", "Pod")
    world.settle(steps=4)
    world.stop(8)
    for key in ((7, 1, 0), (9, 1, 1)):
        world.cluster.show(key, ObjectState.SUCCEEDED)
    world.settle()
    table = world.reconciler._table
    assert table.troubles == {}
    check_table(table)
    world.pass_time(61.0)
    world.settle()
    assert (len(table), len(table.index), table.bags) == (0, 0, {})
    check_table(table)


@pytest.mark.parametrize("is_bag", [False, True], ids=["alone", "as-a-bag"])
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase != Phase.FREE])
def test_run_of_one_object_and_bag_of_one_object_have_one_life(phase: Phase, *, is_bag: bool) -> None:
    """What is planned for a pod does not depend on how its run is kept."""
    states = [ObjectState.LEASED, ObjectState.RUNNING, ObjectState.SUCCEEDED, ObjectState.FAILED, ObjectState.LOST]
    plans: list[list[int]] = []
    for bag in (False, is_bag):
        for state in states:
            for stop in (Stop.NONE, Stop.WANTED):
                for stored in (ObjectState.LEASED, state):
                    table, slots = table_with()
                    if bag:
                        table.open_bag(KEY, 1)
                    table.has_row[slots], table.phase[slots] = True, phase
                    table.state[slots], table.stored_state[slots], table.stop[slots] = state, stored, stop
                    plan = plan_runs(table, slots, now_s=1.0)
                    columns = (plan.create, plan.delete, plan.expire, plan.close, plan.close_ends, plan.forget)
                    plans.append([value for column in columns for value in (len(column), *column.tolist())])
    assert plans[: len(plans) // 2] == plans[len(plans) // 2 :]


@pytest.mark.parametrize(
    ("break_it", "rule"),
    [
        pytest.param(lambda table, slot: table.phase.__setitem__(slot, Phase.GONE), "has ended", id="gone-and-open"),
        pytest.param(lambda table, slot: table.phase.__setitem__(slot, Phase.DELETING), "told to go", id="deleting"),
        pytest.param(lambda table, slot: table.in_trouble.__setitem__(slot, True), "records", id="no-record"),
        pytest.param(lambda table, _: table.index.clear(), "found by its run", id="no-way-to-it"),
        pytest.param(lambda table, slot: table.phase.__setitem__(slot, Phase.CREATING), "under way", id="no-end"),
    ],
)
def test_broken_table_is_caught(break_it, rule: str) -> None:  # noqa: ANN001 - lambdas of this file
    """Each invariant notices what it is there for."""
    table, slots = table_with()
    check_table(table)
    break_it(table, int(slots[0]))
    with pytest.raises(InvariantViolation, match=rule):
        check_table(table)

"""The diagrams of states in the design are the tables that the code uses."""

import re
from enum import IntEnum
from pathlib import Path

from argosy_core.job.states import IS_RUN_TERMINAL, JOB_TRANSITIONS, RUN_TRANSITIONS, JobState, RunState

PAGE = Path(__file__).parents[3] / "docs" / "design" / "4-states.md"
TERMINAL_JOBS = {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}
UNDRAWN_ENDS = {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.LOST, RunState.PREEMPTED}
"""Ends of runs that the text names in place of arrows: each may follow each state that is no end."""

Arrows = set[tuple[str, str, str]]


def drawn(heading: str) -> Arrows:
    """Return the arrows of the diagram below a heading: from, to, label."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    diagram = section.partition("stateDiagram-v2\n")[2].partition("```")[0]
    return {
        (before, after, label)
        for before, after, label in re.findall(r"^ +(\S+) --> (\S+?)(?:: (\w+))?$", diagram, re.MULTILINE)
    }


def name(state: IntEnum | None) -> str:
    """Return a state as a diagram calls it."""
    return "[*]" if state is None else state.name.lower()


def test_diagram_of_jobs_has_every_change_of_state_in_the_table() -> None:
    """An arrow for each event that changes the state, from nothing before the first and to nothing after an end."""
    table = {
        (name(before), name(after), name(event))
        for (before, event), (after, _) in JOB_TRANSITIONS.items()
        if before != after
    }
    assert drawn("States of a job") == table | {(name(end), "[*]", "") for end in TERMINAL_JOBS}


def test_diagram_of_runs_has_every_change_of_state_but_the_ends_that_the_text_names() -> None:
    """The five ends may follow every state that is no end; all other changes are arrows."""
    changes = {(before, after) for (before, _), (after, _) in RUN_TRANSITIONS.items()}
    open_states = {state for state in RunState if not IS_RUN_TERMINAL[state]}
    ends = {(before, after) for before in open_states for after in UNDRAWN_ENDS}
    assert ends <= changes
    arrows = {(name(before), name(after), name(after)) for before, after in changes - ends}
    assert drawn("States of a run") == arrows | {("returned", "[*]", "")}

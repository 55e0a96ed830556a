"""`argosy trace`: profiles of traces, from the command line."""

import json
from pathlib import Path
from typing import Any

SWF = "; MaxProcs: 8\n" + "".join(
    f"{number} {number * 10} -1 60 {cores} -1 -1 {cores} 60 -1 1 1 1 1 1 1 -1 -1\n"
    for number, cores in enumerate([1, 2, 4, 8], start=1)
)


def test_trace_is_shown_and_its_profile_is_a_trace_again(offline: Any, tmp_path: Path) -> None:
    """A profile shares a load without its data: the same number of jobs can be drawn from it."""
    trace, profile = tmp_path / "log.swf", tmp_path / "profile.json"
    trace.write_text(SWF)

    shown = json.loads(offline("trace", "show", str(trace), "-o", "json").out)
    made = offline("trace", "profile", str(trace), "--out", str(profile), "--source", "a log")
    again = json.loads(offline("trace", "show", str(profile), "-o", "json").out)

    assert (shown["jobs"], shown["nodes"], made.code) == (4, 1, 0)
    assert (again["jobs"], again["nodes"], again["source"]) == (4, 1, "profile of a log")
    assert "jobs:   4" in made.out

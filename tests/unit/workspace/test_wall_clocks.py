"""No process decides anything by the wall clock of its machine, which may be fast, slow or set by days at any moment.

Leaders and servers go by the database's time. What must be let go in time, as fences and leases, goes by a clock that
nobody sets and that counts sleep.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = [
    *(ROOT / "services").glob("*/src"),
    *(ROOT / "libs" / name / "src" for name in ("core", "eventlog", "kube", "runtime", "store")),
]
WALL_CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today", "CLOCK_REALTIME"}
KUBE = "libs/kube/src/argosy_kube/"
RUNTIME = "libs/runtime/src/argosy_runtime/"
ALLOWED = {
    f"{KUBE}kubernetes/cluster.py": "when objects were seen; leaders correct it by the time of the message",
    f"{KUBE}kubernetes/ours/objects.py": "the same",
    f"{KUBE}kubernetes/ours/observing.py": "the same",
    f"{KUBE}simulated/host.py": "the clock of a simulated cluster's nodes",
    f"{RUNTIME}access/oidc.py": "tokens of an issuer say in wall time until when they count",
    f"{RUNTIME}joining.py": "certificates say in wall time until when they count",
    f"{RUNTIME}log_archives/opening.py": "signatures and lines of archives carry the wall time",
    "services/agent/src/argosy_agent/traces.py": "spans carry the wall time",
    "services/executor/src/argosy_executor/create_traces.py": "spans carry the wall time",
    "services/executor/src/argosy_executor/session.py": "the time of a message, by which leaders correct those in it",
    "services/server/src/argosy_server/leader/sessions/samplers.py": "when sizes of pods changed, for people to read",
    "services/server/src/argosy_server/service_accounts.py": "how long a cluster's word on a token is remembered",
}
"""Files that read a wall clock, and why that decides nothing that a wrong one could spoil."""


def names_read(path: Path) -> set[str]:
    """Return the last two parts of each dotted name that a file reads; nothing of one without a clock's name."""
    found: set[str] = set()
    text = path.read_text(encoding="utf-8")
    if not any(clock in text for clock in (*WALL_CLOCKS, "monotonic")):
        return found  # most files: reading their syntax trees would take seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
            if isinstance(node.value, ast.Name):
                found.add(f"{node.value.id}.{node.attr}")
    return found


@pytest.mark.timeout(60)
def test_wall_clocks_are_read_where_they_may_be_and_nowhere_else() -> None:
    """Whoever reads one says here why a wrong one spoils nothing."""
    readers = {
        str(path.relative_to(ROOT))
        for source in SOURCES
        for path in source.rglob("*.py")
        if WALL_CLOCKS & names_read(path)
    }
    assert readers == set(ALLOWED)


@pytest.mark.parametrize(
    ("service", "others"), [("agent", set()), ("executor", {"pool_part.py"})], ids=["agent", "executor"]
)
def test_what_is_let_go_in_time_goes_by_a_clock_that_counts_sleep(service: str, others: set[str]) -> None:
    """The monotonic clock stands still while a machine sleeps, and others have waited for the lease or the fence.

    Only how often a plugin's faults are told goes by it.
    """
    files = [*(ROOT / "services" / service / "src").rglob("*.py")]
    assert any("elapsed_s" in path.read_text(encoding="utf-8") for path in files)
    assert {path.name for path in files if {"time.monotonic", "time.monotonic_ns"} & names_read(path)} == others

"""What is shown while a workload runs."""

import io

import pytest
from rich.console import Console

from argosy_cli.progress import CountsDisplay
from argosy_client import QueueShare

SHARE = QueueShare(
    queue="research",
    weight=3,
    fair_share_ratio=1,
    usage_cores=30,
    flow_cores=20,
    demand_cores=50,
    entitled_cores=40,
    queued_count=5,
    pending_count=2,
    leased_count=9,
)
REASONS = {"research": {"no_room": 4, "promised": 2, "": 1}, "flood": {"no_room": 1}}


def test_line_has_why_jobs_of_all_queues_wait(capsys: pytest.CaptureFixture[str]) -> None:
    """Most first; those that wait for nothing but their turn have no reason."""
    with CountsDisplay("Demo", total=10) as display:
        display.update({"queued": 8}, "3 s", reasons=REASONS)
    assert capsys.readouterr().err == "Demo: 8 queued; 3 s; waiting: no room 5, promised 2\n"


def test_table_has_a_row_of_each_queue_with_why_its_jobs_wait() -> None:
    """Running, waiting, and for what."""
    display = CountsDisplay("Demo", live=False)
    display.update({"queued": 7}, "3 s", [SHARE], REASONS)
    target = io.StringIO()
    Console(file=target, width=160).print(display._drawing())
    (row,) = [line.split() for line in target.getvalue().splitlines() if "research" in line]
    assert row == ["research", "3", "40", "30", "20", "9", "7", "no", "room", "4,", "promised", "2"]

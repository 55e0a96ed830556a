"""What a report says in a few sentences: did the jobs end, was the pool used, did each queue get its share.

Source: design section 9, "report".
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from argosy_workload.report import QueueResult, Report
from argosy_workload.story import describe_duration

__all__ = ["describe_duration", "describe_verdict"]

CONTENDED_RATIO: Final = 0.05
"""Below this share of the time nothing is said about fairness: there was room for all."""
_RESOURCES: Final = {"cpu": "cores", "memory": "memory", "nvidia.com/gpu-milli": "GPUs"}


def describe_verdict(report: Report) -> tuple[str, ...]:
    """Return the sentences that a reader needs first; each holds for any workload.

    Complexity: O(queues).
    """
    sentences = [_outcome(report), _use(report)]
    if report.fairness.contended_ratio >= CONTENDED_RATIO and len(report.queues) > 1:
        sentences.append(_shares(report))
    if report.first_come is not None:
        sentences += _waits(report)
    return (*sentences, *_story(report))


def _outcome(report: Report) -> str:
    """Say how many jobs ended how."""
    succeeded = report.states.get("succeeded", 0)
    time = f"in {describe_duration(report.elapsed_s)} ({report.throughput_per_s:,.3g} a second)"
    if succeeded == report.job_count:
        return f"All {report.job_count:,} jobs succeeded {time}."
    others = ", ".join(f"{count:,} {state}" for state, count in report.states.items() if state != "succeeded")
    return f"{succeeded:,} of {report.job_count:,} jobs succeeded {time}; {others}."


def _use(report: Report) -> str:
    """Say how full the pool was while work waited, by its scarcest resource."""
    if not report.utilisation_loaded:
        return "The jobs asked for no resource that the nodes have."
    scarcest = max(report.utilisation_loaded, key=lambda name: report.utilisation_loaded[name])
    name = _RESOURCES.get(scarcest, scarcest)
    if report.fairness.contended_ratio < CONTENDED_RATIO:
        return f"There was room for all: {report.utilisation[scarcest]:.0%} of the {name} were used."
    return (
        f"Work waited for room {report.fairness.contended_ratio:.0%} of the time; "
        f"{report.utilisation_loaded[scarcest]:.0%} of the {name} were used meanwhile."
    )


def _shares(report: Report) -> str:
    """Say how near the queues came to what they were entitled to."""
    text = (
        "The queue farthest from what its weight entitles it to was off by "
        f"{report.fairness.largest_deviation_ratio:.1%} of all work"
    )
    if report.first_come is not None:
        text += f"; with first come, first served by {report.first_come.fairness.largest_deviation_ratio:.1%}"
    return text + "."


def _waits(report: Report) -> list[str]:
    """Say which queue first come, first served keeps waiting longest, if it does so at all."""
    first_come = report.first_come
    if first_come is None:
        return []
    pairs = [(one, other) for one, other in zip(report.queues, first_come.queues, strict=True) if _wait(other)]
    if not pairs:
        return []
    mine, other = max(pairs, key=lambda pair: _wait(pair[1]) - _wait(pair[0]))
    if _wait(other) <= _wait(mine):
        return ["First come, first served keeps no queue waiting longer."]
    mean, other_mean = describe_duration(_wait(mine)), describe_duration(_wait(other))
    return [f"A job of {mine.name} waits {mean} in the mean; first come, first served lets it wait {other_mean}."]


def _story(report: Report) -> list[str]:
    """Count what else happened."""
    counts = Counter(one.kind for one in report.happenings)
    promised = counts["promised"] + counts["late"]
    parts = (
        (counts["gang"], f"gangs begun with all pods at once: {counts['gang']:,}"),
        (promised, f"promised starts: {promised:,}, kept: {counts['promised']:,}"),
        (counts["preempted"], f"runs preempted: {counts['preempted']:,}"),
        (counts["lost"], f"nodes lost: {counts['lost']:,}"),
    )
    told = "; ".join(text for count, text in parts if count)
    return [f"{told[0].upper()}{told[1:]}."] if told else []


def _wait(queue: QueueResult) -> float:
    """Return a queue's mean wait, 0 if nothing of it started."""
    return queue.mean_wait_s or 0.0

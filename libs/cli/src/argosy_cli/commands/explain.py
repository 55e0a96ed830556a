"""`argosy explain`: where a job stands and why."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import click

from argosy_cli.attempts import told_run
from argosy_cli.job_ids import whole_id
from argosy_cli.options import common_options, settings_of
from argosy_cli.output import part_text, print_one, state_text, time_text
from argosy_cli.session import call

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, ClusterWaitReason, Explanation, PromisedStart, QueueStanding, StartBand

__all__ = ["describe", "explain"]


@click.command()
@click.argument("job_id")
@common_options
@click.pass_context
def explain(context: click.Context, *, job_id: str) -> None:
    """Say where the job JOB_ID stands and, if it waits, why: what holds it, nodes per filter, and the nearest miss."""
    settings = settings_of(context)

    async def fetch(client: ArgosyClient) -> Explanation:
        return await client.explain_job(await whole_id(client, job_id))

    answer = call(settings, fetch)
    print_one(settings, answer, _lines(answer))


describe = copy(explain)
describe.name = "describe"


def _lines(answer: Explanation) -> list[tuple[str, str]]:
    waits = answer.stage in {"queued", "pending"}
    has_turn = waits and answer.wait_reason != "no_leader"  # else nobody knows it
    run = told_run(answer.job)
    return [
        ("job", f"{answer.job.id} ({answer.job.queue}/{answer.job.job_set})"),
        ("stage", state_text(answer.stage.replace("_", " "))),
        ("summary", answer.summary),
        ("placed on", f"{run.cluster}/{run.node} (attempt {run.attempt})" if run and not waits else ""),
        ("before it in its queue", f"{answer.queue_position:,}" if has_turn else ""),
        ("its queue", _standing_text(answer.queue_standing)),
        ("expected to start", _band_text(answer.expected_start)),
        ("waits for", answer.wait_reason.replace("_", " ")),
        ("missing", "\n".join(answer.missing)),
        ("largest node for it", answer.largest_node),
        ("by cluster", "\n".join(_cluster_text(one) for one in answer.cluster_reasons)),
        (
            "flow per weight",
            f"{answer.queue_flow_per_weight:g} (least of all queues with work: {answer.least_flow_per_weight:g})"
            if has_turn
            else "",
        ),
        ("nodes looked at", f"{answer.examined_node_count:,}" if answer.examined_node_count else ""),
        ("turned away", "\n".join(count.text or f"{count.filter}: {count.node_count:,}" for count in answer.filters)),
        ("nearest miss", answer.nearest_miss),
        ("promised", _promise_text(answer.promised_start)),
        ("failed often on", "\n".join(answer.last_choice_nodes)),
        ("conflicts so far", str(answer.failed_attempt_count or "")),
    ]


def _cluster_text(one: ClusterWaitReason) -> str:
    """Return what one cluster says of a job."""
    able = one.able_node_count
    parts = [
        one.reason.replace("_", " "),
        f"{able:,} node{'' if able == 1 else 's'} could hold it" if able is not None else "",
        *(count.text for count in one.filters),
        one.text,
    ]
    return f"{one.cluster}: {'; '.join(filter(None, parts))}"


def _standing_text(standing: QueueStanding | None) -> str:
    """Return how the queue of a job stands."""
    if standing is None:
        return ""
    notes = [f"{part_text(standing.dominant_ratio)} of its {standing.dominant_resource}"]
    notes = notes[: bool(standing.dominant_resource)]
    notes += [f"{name} weighs nothing" for name in standing.weightless_resources]
    text = f"holds {part_text(standing.usage_ratio)} of the pool" + (f" ({'; '.join(notes)})" if notes else "")
    text += f"; its share is {part_text(standing.share_ratio)}"
    if not standing.before_count:
        return text
    first = ", ".join(one.queue for one in standing.first_before)
    more = standing.before_count - len(standing.first_before)
    return f"{text}; first come {first}" + (f" and {more:,} more" if more else "")


def _band_text(band: StartBand | None) -> str:
    """Return when a job is expected to start."""
    if band is None:
        return ""
    likely = f", most likely {time_text(band.likely)}" if band.likely else ""
    return f"from {time_text(band.earliest)} to {time_text(band.latest) or 'nobody knows when'}{likely}"


def _promise_text(promise: PromisedStart | None) -> str:
    """Return what was promised, or nothing."""
    if promise is None:
        return ""
    return f"{promise.node} by {time_text(promise.time)} ({'firm' if promise.firm else 'expected'})"

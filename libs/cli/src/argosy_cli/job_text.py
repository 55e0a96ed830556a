"""Jobs as people read them: rows of a table, and one job whole.

Source: design section 9.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from argosy_cli.attempts import end_time, start_time, told_run
from argosy_cli.options import Settings
from argosy_cli.output import Column, age_text, amount_text, print_one, state_text, time_text
from argosy_cli.selectors import ACTIVE_STATES
from argosy_core.job.identity import short_id

if TYPE_CHECKING:
    from argosy_client import Job, Run, ScalingRules

__all__ = ["job_columns", "print_job", "scaling_text"]

_AUTOSCALE: Final = "argosy.dev/autoscale"
"""Annotations that begin so are shown in words."""
_SCALED: Final = ("cpu", "memory")


def job_columns() -> list[Column[Job]]:
    """Return the columns of a table of jobs."""
    return [
        Column("ID", lambda j: short_id(j.id), wide=False),
        Column("WHOLE ID", lambda j: j.id, wide=True),
        Column("QUEUE", lambda j: j.queue),
        Column("JOB SET", lambda j: j.job_set),
        Column("STATE", _state_text),
        Column("WAITS FOR", _wait_text),
        Column("PRIORITY", lambda j: str(j.priority), wide=True, right=True),
        Column("CLUSTER", lambda j: run.cluster if (run := told_run(j)) else "-"),
        Column("NODE", lambda j: run.node if (run := told_run(j)) else "-"),
        Column("ATTEMPT", lambda j: str(j.runs[-1].attempt) if j.runs else "-", wide=True, right=True),
        Column("REQUESTS", _requests_text),
        Column("LIFETIME", lambda j: _duration_text(j.lifetime_s) or "-", wide=True, right=True),
        Column("TIME LIMIT", lambda j: _duration_text(j.time_limit_s) or "-", wide=True, right=True),
        Column("SUBMITTER", lambda j: j.submitter or "-", wide=True),
        Column("ESTIMATE", lambda j: _duration_text(j.estimate_s) or "-", wide=True, right=True),
        Column("CLIENT ID", lambda j: j.client_id or "-", wide=True),
        Column("RAN", _run_time_text, right=True),
        Column("EXIT", _exit_text, right=True),
        Column("AGE", lambda j: age_text(j.create_time), right=True),
        Column("REASON", lambda j: j.reason, wide=True),
    ]


def print_job(settings: Settings, job: Job) -> None:
    """Print one job: what it is, its runs, what happened to it and when, its manifests."""
    runs = "\n".join(f"{_run_number(job, run)}: {_run_text(run)}" for run in job.runs)
    told = told_run(job)
    lines = [
        ("id", job.id),
        ("queue", job.queue),
        ("job set", job.job_set),
        ("state", _state_text(job)),
        ("waits for", _wait_text(job).strip("-")),
        ("reason", job.reason),
        ("priority", str(job.priority)),
        ("requests", _requests_text(job).strip("-")),
        ("client id", job.client_id),
        ("lifetime", _duration_text(job.lifetime_s)),
        ("time limit", _duration_text(job.time_limit_s)),
        ("submitter", job.submitter),
        ("estimate", _duration_text(job.estimate_s)),
        ("most of its job set", str(job.job_set_limit or "")),
        ("after", f"{', '.join(job.after)} {job.after_until}" if job.after else ""),
        ("operator", f"argosy jobs --parent {short_id(job.id)} lists its children" if job.operator else ""),
        ("parent", f"{job.parent.job_id}{', which it outlives' * job.parent.outlives}" if job.parent else ""),
        ("submitted", time_text(job.create_time)),
        ("started", time_text(start_time(job))),
        ("ended", time_text(job.end_time)),
        ("ran", _run_time_text(job).strip("-")),
        ("exit code", "" if told is None or told.exit_code is None else str(told.exit_code)),
        ("labels", ", ".join(f"{key}={value}" for key, value in job.labels.items())),
        (
            "annotations",
            ", ".join(f"{key}={value}" for key, value in job.annotations.items() if not key.startswith(_AUTOSCALE)),
        ),
        ("autoscale", scaling_text(job.scaling)),
        ("runs", runs),
        ("events", _events_text(job)),
        ("groups", ", ".join(f"{one.name} {one.minimum}-{one.maximum}" for one in job.groups)),
        (
            "manifests",
            "---\n".join(map(_manifest_text, (*job.manifests, *(one.template for one in job.groups)))).rstrip(),
        ),
    ]
    print_one(settings, job, lines)


def scaling_text(rules: ScalingRules | None) -> str:
    """Return within what a job's pod is resized, empty if nothing is said of it."""
    if rules is None or rules.is_off:
        return "off" if rules else ""
    words = [f"{low} to {high} {name}" for name, low, high in zip(_SCALED, rules.least, rules.most, strict=False)]
    words += ["in " + " and ".join(map(" ".join, zip(rules.unit, _SCALED, strict=True)))] if rules.unit else []
    words += ["in equal units"] * rules.is_bundle + ["movable"] * rules.is_movable
    return ", ".join(words) if rules.least else ""


def _state_text(job: Job) -> str:
    """Return the state of a job, `pending` of one that is next and has no room, and what is asked of it."""
    state = state_text("pending" if job.stage == "pending" else job.state)
    if job.state not in ACTIVE_STATES:
        return state
    return state + (" (cancel asked)" if job.cancel_requested else " (held)" if job.held else "")


def _wait_text(job: Job) -> str:
    """Return what a job waits for, `-` if it does not or nobody knows."""
    if job.stage not in {"queued", "pending"}:
        return "-"
    return job.wait_reason.replace("_", " ") or "its turn"


def _requests_text(job: Job) -> str:
    """Return what a job asks for: cores, memory, then what else."""
    known = {"cpu": "cpu", "memory": "mem", "nvidia.com/gpu": "gpu"}
    names = [name for name in known if name in job.requests]
    names += [name for name in job.requests if name not in known and name != "pods"]
    return " ".join(f"{known.get(name, name)}={amount_text(name, job.requests[name])}" for name in names) or "-"


def _duration_text(seconds: int | None) -> str:
    """Return a duration for people, empty for none."""
    from argosy_client.durations import duration_text

    return "" if seconds is None else duration_text(seconds)


def _run_time_text(job: Job) -> str:
    """Return how long the newest attempt has run, `-` if it has not begun."""
    began = start_time(job)
    return "-" if began is None else age_text(began, now=end_time(job))


def _exit_text(job: Job) -> str:
    told = told_run(job)
    return "-" if told is None or told.exit_code is None else str(told.exit_code)


def _run_number(job: Job, run: Run) -> str:
    """Return the attempt, and which of its members if it has several."""
    is_one_of_many = sum(other.attempt == run.attempt for other in job.runs) > 1 or run.member
    replacement = f", replacement {run.replacement}" if run.replacement else ""
    return f"{run.attempt} member {run.member}{replacement}" if is_one_of_many else f"{run.attempt}"


def _run_text(run: Run) -> str:
    """Return a run as a line: where, since when, how long, how it ended."""
    parts = [f"{state_text(run.state)} on {run.cluster}/{run.node}"]
    if run.start_time is not None:
        parts.append(f"began {time_text(run.start_time)}, ran {age_text(run.start_time, now=run.end_time)}")
    elif run.lease_time is not None:
        parts.append(f"leased {time_text(run.lease_time)}")
    if run.exit_code is not None:
        parts.append(f"exit code {run.exit_code}")
    if run.reason:
        parts.append(run.reason)
    return ", ".join(parts)


def _events_text(job: Job) -> str:
    """Return what happened to a job and when, as its row and those of its runs say; one line each, in order."""
    events: list[tuple[datetime | None, str]] = [(job.create_time, "submitted")]
    for run in job.runs:
        which = f"attempt {_run_number(job, run)}"
        events += [
            (run.lease_time, f"leased on {run.cluster}/{run.node}, {which}"),
            (run.start_time, f"running, {which}"),
            (run.end_time, f"{run.state}, {which}" + (f": {run.reason}" if run.reason else "")),
        ]
    if job.end_time is not None:
        why = f": {job.reason}" if job.state == "cancelled" and job.reason else ""
        events.append((job.end_time, f"job {job.state}{why}"))
    told = sorted(((time, text) for time, text in events if time is not None), key=lambda event: event[0])
    return "\n".join(f"{time_text(time)}  {text}" for time, text in told)


def _manifest_text(manifest: str) -> str:
    """Return a manifest as people write it; as it is if it cannot be read."""
    import json

    import yaml

    try:
        return str(yaml.safe_dump(json.loads(manifest), sort_keys=False, allow_unicode=True))
    except ValueError:
        return manifest + "\n"

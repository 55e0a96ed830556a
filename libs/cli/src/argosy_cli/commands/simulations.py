"""`argosy simulate`: a workload through the mesh in virtual time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from argosy_cli.exits import ExitCode
from argosy_cli.options import FiniteRange, output_options, settings_of
from argosy_cli.progress import CountsDisplay
from argosy_cli.trace_options import trace_options

if TYPE_CHECKING:
    from argosy_local.simulation import Beside, Progress, Simulated
    from argosy_workload.report import Report

__all__ = ["simulate"]

_LINE_PERIOD_S = 10.0
"""Between two lines of progress where there is no terminal."""


_order_option = click.option(
    "--order",
    "job_order",
    type=click.Choice(["submit", "smallest-area"]),
    default="submit",
    show_default=True,
    help="Order of jobs within a queue: leader.round.job_order.",
)


_set_option = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of the rounds, as promise_order=smallest-area for leader.round.promise_order; may be repeated.",
)


_usage_option = click.option(
    "--usage",
    nargs=2,
    type=(click.Path(exists=True, dir_okay=False, path_type=Path), click.FloatRange(min=1.0)),
    metavar="FILE SECONDS",
    help="What pods use, so that agents resize them: a machine a line, percent of what a pod asks for at each step of "
    "so many SECONDS.",
)


_resolution_option = click.option(
    "--resolution",
    "resolution_s",
    type=FiniteRange(0.0, 86_400.0),
    default=0.0,
    metavar="SECONDS",
    help="Jobs come and end at multiples of so many seconds, so that many are decided at once: quicker, with waits "
    "right to about so many seconds.",
)


@click.command()
@click.argument("trace", required=False, default="")
@trace_options
@click.option(
    "--scheduler",
    type=click.Choice(["flow", "fcfs"]),
    default="flow",
    show_default=True,
    help="The mesh, or strict first come, first served.",
)
@_order_option
@_set_option
@_usage_option
@_resolution_option
@click.option(
    "--report",
    "report_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File: .html, .json, .png, .svg, .txt.",
)
@click.option("--quiet", "-q", is_flag=True, help="Do not show how far it is.")
@output_options
@click.pass_context
def simulate(
    context: click.Context,
    /,
    *,
    trace: str,
    scheduler: str,
    job_order: str,
    changes: tuple[str, ...],
    quiet: bool,
    report_path: Path | None,
    **choice: Any,  # noqa: ANN401 - `usage`, `resolution_s`, and fields of TraceChoice
) -> int:
    """Run the trace TRACE in virtual time and report: leader, samplers, executors and clusters without a network.

    TRACE is a file (Standard Workload Format, Alibaba 2023 GPU pods, Philly, SURF, Argosy YAML or profile; plain or
    gzip) or the name of a bundled workload (demo, alibaba-gpu-2023); without it the demo's: five queues that want more
    than the pool has, and a node that dies. Equal input and seed give the equal event hash. Ctrl-C reports what has
    happened so far.
    """
    from argosy_local.demo import ROUND_SETTINGS, is_demo, lost_node_of
    from argosy_local.node_files import TraceChoice, read_workload
    from argosy_local.reporting import check_report_path
    from argosy_local.simulation import Beside
    from argosy_local.simulation import simulate as run_simulation
    from argosy_workload.contended import CONTENDED
    from argosy_workload.report import add_first_come, build_report

    check_report_path(report_path)
    usage, resolution_s = choice.pop("usage"), choice.pop("resolution_s")
    chosen = TraceChoice(trace=trace or CONTENDED, **choice)
    workload, node_set = read_workload(chosen)
    shown = is_demo(chosen.trace) and scheduler != "fcfs"
    beside = Beside.of(lost_node_of(node_set) if shown else None, usage, 0.0 if scheduler == "fcfs" else resolution_s)
    title = f"Simulation of {Path(chosen.trace).name}, {scheduler}"
    round_settings = {"job_order": job_order, **(ROUND_SETTINGS if shown else {}), **_round_changes(changes)}
    with CountsDisplay(title, live=not quiet, total=len(workload), line_period_s=_LINE_PERIOD_S) as display:
        done = run_simulation(
            workload,
            node_set,
            scheduler=scheduler,
            seed=chosen.seed,
            tell=_teller(display, len(workload)),
            round_settings=round_settings,
            beside=beside,
        )
    report = build_report(
        done.records,
        node_set,
        title=title,
        counters=done.counters,
        notes=_notes(done, beside),
        settings={**_texts(round_settings), **_settings(done, scheduler, chosen.seed)},
    )
    if scheduler != "fcfs" and done.is_complete:
        report = add_first_come(report, workload, node_set)
    _show(context, replace(report, scaling=done.scaling), report_path)
    return ExitCode.OK if done.is_complete else ExitCode.INTERRUPTED


def _show(context: click.Context, report: Report, path: Path | None) -> None:
    """Print a report, and write it to a file if one is named."""
    from argosy_cli.reporting import print_report
    from argosy_local.reporting import write_report

    print_report(settings_of(context), report)
    if path is not None:
        write_report([report], path)
        click.echo(f"report: {path.absolute()}", err=True)


def _round_changes(changes: tuple[str, ...]) -> dict[str, bool | int | float | str]:
    """Return settings of the rounds by name, from NAME=VALUE; whether a value is in its range is looked at later.

    Raises:
        InvalidRequest: A setting is not known, or its value is of another type.
    """
    from argosy_core.errors import InvalidRequest
    from argosy_core.scheduler import RoundSettings

    defaults = {one.name: one.default for one in fields(RoundSettings)}
    known = {name: value for name, value in defaults.items() if isinstance(value, bool | int | float | str)}
    chosen: dict[str, bool | int | float | str] = {}
    for change in changes:
        name, _, value = change.partition("=")
        name = name.strip().removeprefix("leader.round.")
        if name not in known:
            raise InvalidRequest(f"--set {change}: there is no setting {name!r}; known are {', '.join(sorted(known))}")
        wanted = type(known[name])
        try:
            chosen[name] = {"true": True, "false": False}[value] if wanted is bool else wanted(value)
        except (KeyError, ValueError) as error:
            words = {bool: "true or false", int: "a whole number", float: "a number"}
            raise InvalidRequest(f"--set {change}: {name} must be {words[wanted]}") from error
    return chosen


def _texts(round_changes: Mapping[str, object]) -> dict[str, str]:
    """Return settings as a report tells them."""
    return {name: str(value) for name, value in round_changes.items()}


def _teller(display: CountsDisplay, total: int) -> Progress:
    """Return what shows how far a simulation of so many jobs is."""
    began_s = time.monotonic()

    def tell(counts: dict[str, int], elapsed_s: float) -> None:
        ended = sum(counts.get(state, 0) for state in ("succeeded", "failed", "cancelled"))
        speed = ended / max(time.monotonic() - began_s, 1e-9)
        display.update(counts, f"{ended / total:.0%}, {speed:,.0f} jobs/s, {elapsed_s:,.0f} virtual seconds")

    return tell


def _notes(done: Simulated, beside: Beside) -> tuple[str, ...]:
    """Return what must be known of a simulation."""
    stopped = f"Stopped by the user after {done.virtual_s:,.0f} virtual seconds."
    asked = "Pods are resized: utilisation and shares count what jobs asked for, which may be more than there is."
    coarse = f"Jobs come and end at multiples of {beside.resolution_s:g} s: waits are right to about so much."
    return (
        *(() if done.is_complete else (stopped,)),
        *((coarse,) if beside.resolution_s else ()),
        *(() if beside.lost is None else (beside.lost.describe(),)),
        *(() if done.scaling is None else (asked,)),
    )


def _settings(done: Simulated, scheduler: str, seed: int) -> dict[str, str]:
    """Return what a reader needs to run it again, and how fast it was."""
    from argosy_cli.reporting import made_by

    return {
        "scheduler": scheduler,
        "seed": str(seed),
        "event hash": done.fingerprint,
        "virtual seconds per real second": f"{done.speed:,.0f}",
        "real seconds": f"{done.real_s:.2f}",
        "jobs per real second": f"{done.jobs_per_s:,.0f}",
        **made_by(),
    }

"""`argosy simulate`: a workload in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from argosy_cli.options import common_options, settings_of
from argosy_core.errors import InvalidRequest

if TYPE_CHECKING:
    from argosy_workload.model import NodeSet, Workload
    from argosy_workload.report import Report

__all__ = ["simulate"]


@click.command()
@click.argument("trace", default="alibaba-gpu-2023")
@click.option(
    "--nodes", default="", help="Node list, or 4x32cpu,128Gi, or 4:cpu=32,memory=128Gi; else what the trace says."
)
@click.option(
    "--clusters", type=click.IntRange(1, 100), default=3, show_default=True, help="Clusters to deal nodes to."
)
@click.option(
    "--scheduler",
    type=click.Choice(["flow", "fcfs", "both"]),
    default="flow",
    show_default=True,
    help="Flow fairness, first come first served, or one after the other.",
)
@click.option("--within", type=click.FloatRange(1), help="Change the trace as a replay within so many seconds would.")
@click.option("--jobs", "job_limit", type=click.IntRange(1), help="Only the first so many jobs.")
@click.option("--seed", default=0, show_default=True, help="Source of all chance.")
@click.option(
    "--queue-by", type=click.Choice(["auto", "queue", "user"]), default="auto", help="What is the queue of an SWF job."
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File: .html, .json, .png, .svg, .txt.",
)
@common_options
@click.pass_context
def simulate(  # noqa: PLR0913 - one parameter per option
    context: click.Context,
    *,
    trace: str,
    nodes: str,
    clusters: int,
    scheduler: str,
    within: float | None,
    job_limit: int | None,
    seed: int,
    queue_by: str,
    report_path: Path | None,
) -> None:
    """Run the trace TRACE in virtual time, on the same scheduling core as the services, and report.

    Two runs with one seed are equal to the last event: their fingerprints say so.
    """
    from argosy_cli.node_files import nodes_of, select_jobs, without_impossible
    from argosy_cli.reporting import check_report_path, print_report, write_report
    from argosy_workload.timing import plan_within
    from argosy_workload.traces import read_trace

    settings = settings_of(context)
    check_report_path(report_path)
    read = read_trace(trace, seed=seed, queue_by=queue_by)
    node_set = nodes_of(nodes, cluster_count=clusters) if nodes else read.nodes
    if node_set is None:
        raise InvalidRequest(f"{trace} does not say which nodes there are: give --nodes")
    workload = read.workload
    if job_limit and job_limit < len(workload):
        import numpy as np

        workload = select_jobs(workload, np.arange(job_limit)).with_notes(
            f"Only the first {job_limit:,} of {len(workload):,} jobs."
        )
    if within:
        workload = plan_within(workload, within_s=within).workload
    workload = without_impossible(workload, node_set)
    title = f"Simulation of {Path(trace).name}"
    reports = []
    for name in ("fcfs", "flow") if scheduler == "both" else (scheduler,):
        click.echo(f"{title}: {len(workload):,} jobs on {len(node_set):,} nodes, {name} ...", err=True)
        report = _flow(workload, node_set, title, seed) if name == "flow" else _fcfs(workload, node_set, title)
        reports.append(report)
        print_report(settings, report)
    if report_path is not None:
        write_report(reports, report_path)
        click.echo(f"report: {report_path.absolute()}", err=True)


def _flow(workload: Workload, nodes: NodeSet, title: str, seed: int) -> Report:
    from argosy_cli.simulating import simulate_flow
    from argosy_workload.report import build_report

    outcome = simulate_flow(workload, nodes, seed=seed)
    told = {
        "scheduler": "flow",
        "seed": str(seed),
        "fingerprint": outcome.fingerprint,
        "real seconds": f"{outcome.elapsed_s:.1f}",
        "virtual seconds per real second": f"{outcome.virtual_s / max(outcome.elapsed_s, 1e-9):,.0f}",
    }
    return build_report(outcome.records, nodes, title=f"{title}, flow", counters=outcome.counters, settings=told)


def _fcfs(workload: Workload, nodes: NodeSet, title: str) -> Report:
    from argosy_workload.fcfs import simulate_fcfs
    from argosy_workload.report import build_report

    records = simulate_fcfs(workload, nodes)
    told = {"scheduler": "strict first come, first served"}
    return build_report(records, nodes, title=f"{title}, first come first served", settings=told)

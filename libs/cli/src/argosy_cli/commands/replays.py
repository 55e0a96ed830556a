"""`argosy replay` and `argosy demo`: a workload through a real mesh."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from argosy_cli.exits import exit_code_of_jobs
from argosy_cli.interrupts import run_to_end
from argosy_cli.options import FiniteRange, Settings, common_options, event_log_options, output_options, settings_of
from argosy_cli.progress import CountsDisplay
from argosy_cli.reporting import made_by
from argosy_cli.session import client_opener, local_mesh, server_address
from argosy_cli.trace_options import trace_options

if TYPE_CHECKING:
    from argosy_client import ArgosyClient
    from argosy_local.lost_node import LostNode
    from argosy_local.mesh import Mesh
    from argosy_local.replay import ReplayProgress
    from argosy_workload.model import NodeSet
    from argosy_workload.report import Report
    from argosy_workload.timing import ReplayPlan

__all__ = ["DEMO_S", "WITHIN_S", "demo", "replay"]

WITHIN_S: Final = 150.0
"""What `argosy_workload.timing` says, which is too slow to import for --help; a test holds them equal."""
DEMO_S: Final = 90.0
"""Likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """One replay to be made."""

    plan: ReplayPlan
    nodes: NodeSet
    title: str
    report_path: Path | None
    opened: Callable[[], ArgosyClient] | None = None
    cluster_speed: float | None = None
    keep: Path | None = None
    event_log: tuple[str, str] = ("", "")
    lost: LostNode | None = None
    is_demo: bool = False


@click.command()
@click.argument("trace")
@trace_options
@click.option(
    "--speed",
    type=FiniteRange(min=0, min_open=True),
    help="Trace seconds per real second [default: 1 if that ends within ten minutes, "
    f"else what ends within {WITHIN_S:.0f} s].",
)
@click.option("--within", type=FiniteRange(1), help="Real seconds to end within; may change the trace, and says so.")
@click.option("--existing", is_flag=True, help="Use the server of --server or `argosy up`, not a mesh of its own.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the report: .html, .json, .png, .svg or .txt.",
)
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), help="Directory for the mesh's files, kept afterwards."
)
@event_log_options
@common_options
@click.pass_context
def replay(
    context: click.Context,
    /,
    *,
    speed: float | None,
    within: float | None,
    existing: bool,
    report_path: Path | None,
    keep: Path | None,
    **choice: Any,  # noqa: ANN401 - event log and fields of TraceChoice
) -> int:
    """Send the trace TRACE through a real mesh, over its API, at a chosen speed, and report.

    TRACE is a file (Standard Workload Format, Alibaba 2023 GPU pods, Philly, SURF, Argosy YAML or profile; plain or
    gzip) or the name of a bundled workload (demo, alibaba-gpu-2023). Unless --existing is given, a mesh of simulated
    clusters is started for it and taken down afterwards. Killing any process of the mesh and starting it again does
    not end a replay.

    Every job runs for its time of the trace, however it ended there. Ends with exit code 5 if a job failed or was
    cancelled all the same.
    """
    from argosy_local.demo import is_demo, lost_node_of
    from argosy_local.node_files import TraceChoice, read_workload
    from argosy_local.reporting import check_report_path
    from argosy_workload.timing import plan_replay

    settings = settings_of(context)
    check_report_path(report_path)
    if speed and within:
        raise click.UsageError("give --speed or --within, not both", context)
    event_log = (choice.pop("event_log"), choice.pop("event_log_admin"))
    chosen = TraceChoice(**choice)
    workload, nodes = read_workload(chosen)
    plan = plan_replay(workload, nodes, speed=speed, within_s=within)
    shown = is_demo(chosen.trace) and not existing
    title = f"Replay of {Path(chosen.trace).name}"
    order = _Order(
        plan=plan,
        nodes=nodes,
        title=title,
        report_path=report_path,
        keep=keep,
        event_log=event_log,
        lost=lost_node_of(nodes, speed=plan.speed) if shown else None,
        is_demo=shown,
    )
    if existing:
        from argosy_local.replay import AWAY_S

        server, state = server_address(settings), local_mesh(settings)
        # Clusters that we did not start run at their own speed, real ones at 1.
        cluster_speed = state.speed if state is not None and state.server == server else 1.0
        order = replace(order, opened=client_opener(settings, total_s=AWAY_S), cluster_speed=cluster_speed)
    return _carry_out(settings, order)


@click.command()
@click.option(
    "--seconds",
    type=FiniteRange(5, 3600),
    default=DEMO_S,
    show_default=True,
    help="Real seconds from the first submit to the last end, or a little more.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws the workload.")
@click.option(
    "--scale",
    type=FiniteRange(0.001, 1),
    default=1.0,
    show_default=True,
    help="Part of the jobs to run; the nodes are all there.",
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("argosy-demo-report.html"),
    show_default=True,
    help="File of the report.",
)
@output_options
@click.pass_context
def demo(context: click.Context, /, *, seconds: float, seed: int, scale: float, report_path: Path) -> int:
    """Run more work than there is room for through a whole mesh, with a report at the end.

    Five queues of different weights fight for 384 cores in three clusters: one fills what is idle and may be preempted,
    one is there from the start, one comes later, one floods the pool with small jobs in one moment, one needs whole
    nodes, one, two or four for a job. Those for which nothing comes free are promised starts. A node dies half way. The
    report holds what each queue received against what it was entitled to, beside first come, first served, and what
    ran on which node. Everything is taken down afterwards. Ends with exit code 5 if a job failed or was cancelled.
    """
    from argosy_local.demo import lost_node_of
    from argosy_local.reporting import check_report_path
    from argosy_workload.timing import plan_demo

    check_report_path(report_path)
    plan, nodes = plan_demo(seed=seed, within_s=seconds, job_scale=scale)
    lost = lost_node_of(nodes, within_s=seconds)
    order = _Order(plan=plan, nodes=nodes, title="Argosy demo", report_path=report_path, lost=lost, is_demo=True)
    return _carry_out(settings_of(context), order)


def _carry_out(settings: Settings, order: _Order) -> int:
    from argosy_cli.reporting import print_report
    from argosy_local.mesh import passing_mesh
    from argosy_local.replay import AWAY_S
    from argosy_local.reporting import write_report

    if order.opened is not None:
        report = _run(order, order.opened)
    else:
        with passing_mesh(order.keep) as mesh:
            _start(mesh, order)
            report = _run(order, lambda: mesh.open_client(total_s=AWAY_S), mesh)
    print_report(settings, report)
    if order.report_path is not None:
        write_report((report,), order.report_path)
        click.echo(f"report: {order.report_path.absolute()}", err=True)
    code = exit_code_of_jobs(report.states)
    if code:
        ended = ", ".join(f"{count:,} {state}" for state, count in report.states.items())
        click.echo(f"not every job succeeded: {ended}", err=True)
    return code


def _start(mesh: Mesh, order: _Order) -> None:
    from argosy_local.compose import UNCAPPED, MeshPlan
    from argosy_local.demo import demo_flags
    from argosy_local.node_files import cluster_plans

    clusters = cluster_plans(order.nodes)
    click.echo(
        f"{order.title}: {len(order.plan.workload):,} jobs on {len(order.nodes):,} nodes in {len(clusters)} clusters; "
        f"{3 * len(clusters) + 3} processes",
        err=True,
    )
    url, admin_url = order.event_log
    plan = MeshPlan(
        clusters=clusters,
        speed=order.plan.speed,
        flags=demo_flags() if order.is_demo else UNCAPPED,
        event_log_url=url,
        event_log_admin_url=admin_url,
    )
    started_s = time.monotonic()
    mesh.up(plan, timeout_s=180.0, tell=lambda text: click.echo(f"  {text} ...", err=True))
    click.echo(f"  ready after {time.monotonic() - started_s:.1f} s; logs in {mesh.directory}/logs", err=True)


def _run(order: _Order, opened: Callable[[], ArgosyClient], mesh: Mesh | None = None) -> Report:
    from argosy_local.reporting import add_rounds
    from argosy_workload.report import add_first_come, build_report

    run_id = f"replay-{secrets.token_hex(4)}"
    with CountsDisplay(order.title, total=len(order.plan.workload)) as display:

        def tell(progress: ReplayProgress) -> None:
            finished = progress.finished_count
            left = f"{progress.elapsed_s:.0f} s of about {order.plan.expected_s:.0f} s"
            note = f"{left}, {progress.submitted_count:,} submitted, {finished:,} ended"
            display.update(progress.counts, note, progress.shares, progress.reasons)

        from argosy_local.replay import Replay

        async def run() -> Replay:
            async with opened() as client:
                one = Replay(client, order.plan, run_id=run_id, cluster_speed=order.cluster_speed, tell=tell)
                async with asyncio.TaskGroup() as group:
                    losing = group.create_task(_lose(order.lost, mesh))
                    await one.run()
                    losing.cancel()
                return one

        done = run_to_end(run())
    report = build_report(
        done.records,
        order.nodes,
        title=order.title,
        counters=dict(done.counters),
        notes=(*done.notes, *((order.lost.describe(),) if order.lost else ())),
        settings={
            "speed": f"{order.plan.speed:.6g}",
            "clusters": str(len(order.nodes.clusters)),
            **made_by(),
        },
    )
    return add_rounds(add_first_come(report, order.plan.workload, order.nodes), done.rounds)


async def _lose(lost: LostNode | None, mesh: Mesh | None) -> None:
    """Take a node away, if one shall go."""
    from argosy_local.lost_node import lose_node

    if lost is not None and mesh is not None:
        await lose_node(lost, address=mesh.address(f"cluster-{lost.cluster}"))

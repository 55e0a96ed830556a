"""`argosy bench`: measure the scheduling core or the whole mesh."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from argosy_cli.exits import ExitCode
from argosy_cli.interrupts import run_to_end
from argosy_cli.options import FiniteRange, Settings, event_log_options, output_options, settings_of
from argosy_cli.output import Column, amount_text, print_rows, print_value

if TYPE_CHECKING:
    from argosy_local.bench import RateResult
    from argosy_local.bench_plan import BenchPlan
    from argosy_workload.model import NodeSet

__all__ = ["bench"]

_CORE_SIZES: Final = (1_000, 10_000, 31_250)


@click.group()
def bench() -> None:
    """Measure the scheduling core or the whole mesh."""


@bench.command("mesh")
@click.option("--rate", "rates", type=FiniteRange(1), multiple=True, help="Jobs per second; repeat for rising rates.")
@click.option("--seconds", type=FiniteRange(1), default=60.0, show_default=True, help="How long is counted.")
@click.option(
    "--warm-up", type=FiniteRange(0), help="How long the load runs before that; the longest run time if not given."
)
@click.option("--clusters", type=click.IntRange(1), help="Clusters [default: 10].")
@click.option("--nodes", type=click.IntRange(1), help="Nodes of each cluster [default: 3125].")
@click.option("--cores-per-node", type=click.IntRange(1), default=32, show_default=True, help="Cores of each node.")
@click.option("--queues", type=click.IntRange(1), help="Queues [default: 100].")
@click.option("--classes", type=click.IntRange(1), help="Scheduling classes [default: 1000].")
@click.option("--call-size", type=click.IntRange(1, 1000), default=100, show_default=True, help="Jobs of a call.")
@click.option("--run-time", default="", help="Run time of the jobs, as in 20s-40s.")
@click.option(
    "--shape",
    type=click.Choice(["default", "saturate", "armada"]),
    default="default",
    show_default=True,
    help="saturate: run times fill all cores; armada: 1,000 nodes, one queue, jobs of 2 s.",
)
@click.option("--generators", type=click.IntRange(1, 16), default=1, show_default=True, help="Processes that send.")
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), help="Directory for the mesh's files, kept afterwards."
)
@event_log_options
@click.option("--broker-pid", type=click.IntRange(1), help="Process of the broker on this machine; its CPU is counted.")
@click.option("--combined", is_flag=True, help="Run sampler and executor of a cluster as one process.")
@click.option("--secure", is_flag=True, help="With TLS, certificates, and callers that are asked who they are.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@output_options
@click.pass_context
def mesh(context: click.Context, /, *, as_json: bool, keep: Path | None, combined: bool, **options: Any) -> int:  # noqa: ANN401 - options
    """Measure a whole mesh under an open-loop load at rising rates.

    Every role is a process of its own, the database is embedded and durable. The load generator and the simulated
    clusters are counted apart.
    """
    from argosy_local.bench import MeshBench
    from argosy_local.bench_plan import plan_bench
    from argosy_local.compose import UNCAPPED, MeshPlan
    from argosy_local.mesh import passing_mesh
    from argosy_local.node_files import cluster_plans

    settings = settings_of(context)
    if as_json:
        settings.output = "json"
    plan, nodes = plan_bench(options)

    def tell(text: str) -> None:
        click.echo(text, err=True)

    parts = MeshPlan(
        clusters=cluster_plans(nodes),
        log_level="warning",
        combined=combined,
        secure=options["secure"],
        event_log_url=options["event_log"],
        event_log_admin_url=options["event_log_admin"],
        flags=UNCAPPED,
    )
    with passing_mesh(keep) as running:
        running.up(parts, timeout_s=300.0, tell=tell)
        results = run_to_end(MeshBench(running, plan, tell=tell).run())
    _print(settings, plan, nodes, results)
    return ExitCode.OK


@bench.command("core")
@click.option(
    "--nodes", "sizes", type=click.IntRange(10, 1_000_000), multiple=True, help="Nodes; repeat for several sizes."
)
@click.option("--pods", type=click.IntRange(10), default=20_000, show_default=True, help="Pods to place per size.")
@click.option(
    "--rounds",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Whole rounds to measure per load; 0 leaves them out.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws the pods.")
@output_options
@click.pass_context
def core(context: click.Context, *, sizes: tuple[int, ...], pods: int, rounds: int, seed: int) -> None:
    """Measure the scheduling core in one process, without network or storage.

    First placements per second of alike and of different pods, on an empty and on a full pool; the sizes are 1,000,
    10,000 and 31,250 nodes if none is given. Then what a whole round of the leader and its samplers costs as jobs,
    nodes, queues and classes grow tenfold, one at a time.
    """
    from argosy_workload import bench_core, bench_round

    settings = settings_of(context)
    placements: list[dict[str, Any]] = []
    for nodes in sizes or _CORE_SIZES:
        click.echo(f"{nodes:,} nodes ...", err=True)
        cases = bench_core.run(nodes, pods, seed=seed)
        placements += [{"nodes": nodes, "case": case, **figures} for case, figures in cases.items()]
    loads: list[dict[str, Any]] = []
    if rounds:
        click.echo("whole rounds ...", err=True)
        loads = [{"load": case, **figures} for case, figures in bench_round.run(rounds=rounds, seed=seed).items()]
    if not settings.is_table:
        print_value(settings, {"placements": placements, "rounds": loads})
        return
    _print_figures(settings, placements)
    if loads:
        click.echo()
        _print_figures(settings, loads)


def _print_figures(settings: Settings, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    print_rows(settings, rows, [_figure_column(name) for name in names], empty="nothing was measured")


def _figure_column(name: str) -> Column[dict[str, Any]]:
    return Column(name.upper().replace("_", " "), lambda row: _figure_text(row.get(name)), right=True)


def _figure_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _print(settings: Settings, plan: BenchPlan, nodes: NodeSet, results: list[RateResult]) -> None:
    held = [result for result in results if result.held]
    if not settings.is_table:
        document = {
            "nodes": len(nodes),
            "clusters": len(nodes.clusters),
            "cores": nodes.capacity().get("cpu", 0) // 1000,
            "processors": os.cpu_count(),
            "load": dataclasses.asdict(plan.load),
            "window_s": plan.window_s,
            "warm_up_s": plan.warm_up_s,
            "highest_held_rate": held[-1].rate if held else None,
            "results": [result.to_builtins() for result in results],
        }
        print_value(settings, document)
        return
    columns: list[Column[RateResult]] = [
        Column("JOBS/S", lambda r: f"{r.rate:,.0f}", right=True),
        Column("HELD", lambda r: "yes" if r.held else "no"),
        Column("ENDED/S", lambda r: f"{r.finished_per_s:,.0f}", right=True),
        Column("ACKNOWLEDGED", lambda r: _latency_text(r, "acknowledged"), right=True),
        Column("CONSIDERED", lambda r: _latency_text(r, "considered"), right=True),
        Column("LEASED", lambda r: _latency_text(r, "leased"), right=True),
        Column("RUNNING", lambda r: _latency_text(r, "running"), right=True),
        Column("CPU US/JOB", lambda r: f"{r.central_cpu_us_per_job:,.0f}", right=True),
        Column("CORES BUSY", lambda r: f"{r.cores_used:.2f}", right=True),
    ]
    print_rows(settings, results, columns, empty="nothing was measured")
    click.echo(
        "times are p50/p99 in ms since submit; CPU is that of API, leader, samplers, Postgres and broker together"
    )
    for result in results:
        if result.notes:
            click.echo(f"{result.rate:,.0f} jobs/s was not held: {'; '.join(result.notes)}")
    if results:
        _print_details(held[-1] if held else results[-1])


def _latency_text(result: RateResult, stage: str) -> str:
    figures = result.latency_ms[stage]
    p50, p99 = figures["p50_ms"], figures["p99_ms"]
    return "-" if p50 is None or p99 is None else f"{p50:,.0f}/{p99:,.0f}"


def _print_details(result: RateResult) -> None:
    cpu = ", ".join(f"{role} {value:,.1f}" for role, value in result.cpu_us_per_job.items())
    memory = ", ".join(f"{role} {amount_text('memory', value)}" for role, value in result.peak_rss_bytes.items())
    rows, fairness = result.database, result.fairness
    per_live = result.leader_bytes_per_live_job
    lines = [
        ("CPU us per job", cpu),
        ("rows inserted a job", f"{rows['inserted_per_job']:.2f}"),
        ("rows updated a job", f"{rows['updated_per_job']:.2f} ({rows['hot_ratio']:.1%} HOT)"),
        ("log bytes per job", f"{rows['wal_bytes_per_job']:,.0f}"),
        ("peak memory", memory),
        (
            "live jobs",
            f"{result.live_count:,.0f}" + (f", {per_live:,.0f} bytes each in the leader" if per_live else ""),
        ),
        ("utilisation", f"{result.utilisation_ratio:.1%}" if result.utilisation_ratio is not None else "-"),
        ("Jain index", f"{fairness['jain_index']:.4f} of usage over entitlement"),
        ("largest deviation", f"{fairness['largest_deviation_ratio']:.3%} of the pool"),
        ("counted", ", ".join(f"{name} {count:,}" for name, count in result.counters.items())),
    ]
    click.echo(f"\nat {result.rate:,.0f} jobs/s:")
    for name, text in lines:
        click.echo(f"  {name:<20} {text}")

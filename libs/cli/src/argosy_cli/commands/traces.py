"""`argosy trace`: profiles of traces."""

from __future__ import annotations

from pathlib import Path

import click

from argosy_cli.options import output_options, settings_of
from argosy_cli.output import print_one, print_value
from argosy_cli.trace_options import format_option
from argosy_core.errors import InvalidRequest

__all__ = ["trace"]


@click.group()
def trace() -> None:
    """Make workload profiles of traces."""


@trace.command("profile")
@click.argument("file")
@format_option
@click.option("--nodes", default="", help="Node list, or 4x32cpu,128Gi; else what the trace says.")
@click.option(
    "--clusters", type=click.IntRange(1, 100), default=3, show_default=True, help="Clusters to deal nodes to."
)
@click.option("--source", default="", help="What the profile names as its source; the file if not given.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File for the profile; standard output if not given."
)
@output_options
@click.pass_context
def profile(
    context: click.Context,
    /,
    *,
    file: str,
    trace_format: str | None,
    nodes: str,
    clusters: int,
    source: str,
    out: Path | None,
) -> None:
    """Compute the profile of the trace FILE: counts and quantiles from which the same load can be drawn.

    A profile holds no job, user or file of the trace, so a cluster's load can be shared without its data. `argosy
    replay`, `simulate` and `trace show` read it like a trace.
    """
    from argosy_local.node_files import nodes_of
    from argosy_workload.profile import compute_profile, format_profile
    from argosy_workload.traces import read_trace

    read = read_trace(file, trace_format=trace_format)
    node_set = nodes_of(nodes, cluster_count=clusters) if nodes else read.nodes
    if node_set is None:
        raise InvalidRequest(f"{file} does not say which nodes there are: give --nodes")
    made = compute_profile(read.workload, node_set, source=source or None)
    text = format_profile(made)
    if out is None:
        click.echo(text, nl=not text.endswith("\n"))
        return
    out.write_text(text, encoding="utf-8")
    settings = settings_of(context)
    counts = {"jobs": made.job_count(), "nodes": made.node_count(), "shapes": len(made.shapes)}
    lines = [("file", str(out)), *((name, f"{count:,}") for name, count in counts.items())]
    print_one(settings, {"file": str(out), **counts}, lines)


@trace.command("show")
@click.argument("file")
@format_option
@output_options
@click.pass_context
def show(context: click.Context, *, file: str, trace_format: str | None) -> None:
    """Show what the trace FILE, or a bundled profile, holds."""
    from argosy_workload.traces import read_trace

    read = read_trace(file, trace_format=trace_format)
    workload = read.workload
    shown = {
        "source": workload.source,
        "jobs": len(workload),
        "span_s": round(workload.span_s(), 3),
        "queues": [queue.name for queue in workload.queues],
        "shapes": len(workload.shapes),
        "nodes": len(read.nodes) if read.nodes is not None else None,
        "notes": list(workload.notes),
    }
    settings = settings_of(context)
    if not settings.is_table:
        print_value(settings, shown)
        return
    queues = ", ".join(queue.name for queue in workload.queues[:8])
    lines = [
        ("source", workload.source),
        ("jobs", f"{len(workload):,} over {workload.span_s():,.0f} s"),
        ("queues", queues + (f" and {len(workload.queues) - 8} more" if len(workload.queues) > 8 else "")),
        ("shapes", f"{len(workload.shapes):,}"),
        ("nodes", f"{len(read.nodes):,}" if read.nodes is not None else "not told; give --nodes to replay it"),
        ("notes", "\n".join(workload.notes)),
    ]
    print_one(settings, shown, lines)

"""Options that say which trace is meant, and what becomes of them.

Source: design section 9, "replay", "simulate".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from argosy_workload.model import NodeSet, Workload

__all__ = ["TraceChoice", "read_workload", "trace_options"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceChoice:
    """Values of the options."""

    trace: str
    """File, or name of a bundled profile."""
    nodes: str
    """Node list or short text; empty for what the trace says."""
    clusters: int
    """Clusters to deal nodes to."""
    job_limit: int | None
    """Only the first so many jobs."""
    seed: int
    """Draws the jobs of a profile."""
    queue_by: str
    """What is the queue of a job of the Standard Workload Format."""


def trace_options(function: _Function) -> _Function:
    """Add --nodes, --clusters, --jobs, --seed and --queue-by to a command."""
    for option in (
        click.option(
            "--queue-by",
            type=click.Choice(["auto", "queue", "user"]),
            default="auto",
            help="What is the queue of an SWF job.",
        ),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Source of all chance."),
        click.option("--jobs", "job_limit", type=click.IntRange(1), help="Only the first so many jobs."),
        click.option(
            "--clusters", type=click.IntRange(1, 100), default=3, show_default=True, help="Clusters to deal nodes to."
        ),
        click.option(
            "--nodes",
            default="",
            help="Node list, or 4x32cpu,128Gi, or 4:cpu=32,memory=128Gi; else what the trace says.",
        ),
    ):
        function = option(function)
    return function


def read_workload(choice: TraceChoice) -> tuple[Workload, NodeSet]:
    """Return the jobs and nodes that the options name; jobs that fit no node are left out, and a note counts them.

    Raises:
        InvalidRequest: A file is missing or damaged, or it is not said which nodes there are.
    """
    import numpy as np

    from argosy_cli.node_files import nodes_of, select_jobs, without_impossible
    from argosy_core.errors import InvalidRequest
    from argosy_workload.traces import read_trace

    read = read_trace(choice.trace, seed=choice.seed, queue_by=choice.queue_by)
    nodes = nodes_of(choice.nodes, cluster_count=choice.clusters) if choice.nodes else read.nodes
    if nodes is None:
        raise InvalidRequest(f"{choice.trace} does not say which nodes there are: give --nodes")
    workload = read.workload
    if choice.job_limit and choice.job_limit < len(workload):
        note = f"Only the first {choice.job_limit:,} of {len(workload):,} jobs."
        workload = select_jobs(workload, np.arange(choice.job_limit)).with_notes(note)
    return without_impossible(workload, nodes), nodes

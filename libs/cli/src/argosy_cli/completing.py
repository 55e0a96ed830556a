"""What a shell may complete beside commands and options: queues, job sets, clusters, ids of jobs, files.

Names are asked of the server, for at most a second; where it cannot be asked nothing is offered and nothing is said.
Only a completion imports this.

Source: design section 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from argosy_cli.options import Settings
from argosy_cli.selectors import make_selector
from argosy_cli.session import call
from argosy_core.errors import ArgosyError
from argosy_core.job.identity import short_id

if TYPE_CHECKING:
    from argosy_client import ArgosyClient

__all__ = ["complete_names"]

_WITHIN_S: Final = 1.0
_MOST: Final = 200
_Named = list[tuple[str, str]]
"""(name, what is said of it)."""


def complete_names(command: click.Command, *, group: str = "") -> None:
    """Let the parameters of a command, and of those below it, complete what they name.

    Args:
        command: The command.
        group: The group it is in.
    """
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                complete_names(inner, group=command.name or "")
        return
    for parameter in command.params:
        source = _SOURCES.get((group, parameter.name or ""), _SOURCES.get(("", parameter.name or "")))
        if source is not None:
            setattr(parameter, "shell_complete", _completer(source))  # noqa: B010 - an instance's own
        elif parameter.name in _FILES:
            setattr(parameter, "shell_complete", _files)  # noqa: B010 - likewise


def _completer(
    source: Callable[[ArgosyClient, dict[str, Any]], Any],
) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(context: click.Context, incomplete: str) -> list[CompletionItem]:
        async def fetch(client: ArgosyClient) -> _Named:
            named: _Named = await source(client, context.params)
            return named

        try:
            named = call(Settings(timeout_s=_WITHIN_S), fetch)
        except (ArgosyError, OSError):
            return []
        return [CompletionItem(name, help=text) for name, text in named if name.startswith(incomplete)][:_MOST]

    return complete


def _files(_context: click.Context, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


async def _queues(client: ArgosyClient, _given: dict[str, Any]) -> _Named:
    return [(queue.name, f"weight {queue.weight:g}") async for queue in client.list_queues()]


async def _job_sets(client: ArgosyClient, given: dict[str, Any]) -> _Named:
    queue = given.get("queue")
    return [(one.name, "") async for one in client.list_job_sets(queue)] if queue else []


async def _clusters(client: ArgosyClient, _given: dict[str, Any]) -> _Named:
    return [(cluster.name, f"{cluster.node_count} nodes") async for cluster in client.list_clusters()]


async def _nodes(client: ArgosyClient, given: dict[str, Any]) -> _Named:
    cluster = given.get("cluster_name") or given.get("cluster")
    names = [cluster] if cluster else [name for name, _ in await _clusters(client, given)]
    return [(node.name, name) for name in names async for node in client.list_nodes(name)]


async def _jobs(client: ArgosyClient, _given: dict[str, Any]) -> _Named:
    found: _Named = []
    async for job in client.list_jobs(make_selector("", "", (), ""), page_size=_MOST, newest_first=True):
        found.append((short_id(job.id), f"{job.queue}/{job.job_set} {job.state}"))
        if len(found) == _MOST:
            break
    return found


_FILES: Final = frozenset({"files", "paths", "path", "file", "script", "trace"})
_SOURCES: Final[dict[tuple[str, str], Callable[[ArgosyClient, dict[str, Any]], Any]]] = {
    ("", "queue"): _queues,
    ("queue", "name"): _queues,
    ("queue", "parent"): _queues,
    ("policy", "name"): _queues,
    ("", "partition"): _queues,
    ("", "job_set"): _job_sets,
    ("job-set", "name"): _job_sets,
    ("", "cluster"): _clusters,
    ("", "cluster_name"): _clusters,
    ("cluster", "name"): _clusters,
    ("node", "name"): _nodes,
    ("", "node"): _nodes,
    ("", "parent"): _jobs,
    ("", "job"): _jobs,
    ("", "wanted"): _jobs,
    ("", "job_id"): _jobs,
    ("", "job_ids"): _jobs,
    ("", "after"): _jobs,
}
"""By (group, parameter), or by parameter alone."""

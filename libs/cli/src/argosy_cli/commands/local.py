"""`argosy up`, `down` and `status`: a mesh on this machine."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from argosy_cli.exits import ExitCode
from argosy_cli.options import FiniteRange, Settings, event_log_options, output_options, settings_of
from argosy_cli.output import Column, amount_text, ask, print_rows, print_value

if TYPE_CHECKING:
    from argosy_client.contexts import ClientContext
    from argosy_local.mesh import Mesh
    from argosy_local.process_status import ProcessStatus

__all__ = ["down", "status", "up"]

_CONTEXT: Final = "local"
_DEFAULT_PORT: Final = 50051
"""Where commands and clients look for a server that nobody named."""


@click.command()
@click.option("--clusters", type=click.IntRange(1, 100), default=2, show_default=True, help="Simulated clusters.")
@click.option("--nodes", type=click.IntRange(1, 1_000_000), default=10, show_default=True, help="Nodes of each.")
@click.option(
    "--node",
    "kinds",
    multiple=True,
    metavar="[COUNT:]RESOURCE=QUANTITY,...",
    default=("cpu=32,memory=128Gi",),
    show_default=True,
    help="What a node has, --nodes of them or COUNT; may be repeated for further kinds. Also label:KEY=VALUE and"
    " taint:KEY=VALUE:EFFECT, as in 2:cpu=96,memory=1Ti,gpu=8,label:model=A100,taint:gpu=yes:NoSchedule.",
)
@click.option(
    "--speed", type=FiniteRange(0.001, 1e6), default=1.0, show_default=True, help="Simulated seconds a second."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port of the API; 0 takes any that is free. Else 50051, or the one that the stopped mesh had.",
)
@click.option("--database-url", default="", help="PostgreSQL 15 or newer to use instead of an embedded one.")
@event_log_options
@click.option(
    "--events-url",
    default="",
    metavar="URL",
    help="Brokers to which job events are relayed for other systems, as in pulsar://127.0.0.1:6650; else none are.",
)
@click.option("--combined", is_flag=True, help="Run sampler and executor of a cluster as one process.")
@click.option("--autoscale", is_flag=True, help="Resize running pods, by an agent for each cluster.")
@click.option("--secure", is_flag=True, help="TLS, certificates, and callers that are asked who they are.")
@output_options
@click.pass_context
def up(
    context: click.Context,
    /,
    *,
    port: int | None,
    **options: Any,  # noqa: ANN401 - the other options
) -> None:
    """Start a mesh on this machine, every role a process of its own, and return when it is ready.

    It runs until `argosy down`, and goes on with its jobs when started again, as it was started before but for the
    options that are given then. The other commands find its server by themselves.
    """
    from argosy_kube.simulated.node_kinds import parse_node_kinds
    from argosy_local.compose import ClusterPlan, MeshPlan
    from argosy_local.mesh import Mesh

    settings = settings_of(context)
    mesh = Mesh(settings.mesh_directory)
    more = _as_before(context, options, mesh.kept_options)
    text = ";".join(kind if kind.partition(":")[0].isdecimal() else f"{more['nodes']}:{kind}" for kind in more["kinds"])
    parse_node_kinds(text)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a start that is stopped leaves nothing
    plan = MeshPlan(
        clusters=tuple(ClusterPlan(name=f"c{number}", kinds=text) for number in range(1, more["clusters"] + 1)),
        speed=more["speed"],
        supervised=True,
        port=port if port is not None else mesh.kept_port or _DEFAULT_PORT,
        database_url=more["database_url"],
        combined=more["combined"],
        autoscale=more["autoscale"],
        event_log_url=more["event_log"],
        event_log_admin_url=more["event_log_admin"],
        events_url=more["events_url"],
        secure=more["secure"],
    )
    mesh.up(plan, options=more, tell=lambda text: click.echo(f"{text} ...", err=True))
    if mesh.secrets is not None:
        _add_context(mesh)
    _tell_ready(settings, mesh, events_url=more["events_url"])


def _as_before(context: click.Context, options: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return options where those that nobody gave are as a stopped mesh was started with, and say which are."""
    taken: dict[str, Any] = {}
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in kept and context.get_parameter_source(name) == ParameterSource.DEFAULT:
            value = tuple(kept[name]) if parameter.multiple else kept[name]
            if value != options[name]:
                taken[name] = value
    if taken:
        named = {parameter.name: parameter.opts[0] for parameter in context.command.params}
        click.echo(f"as before: {' '.join(_words(named[name], value) for name, value in taken.items())}", err=True)
    return {**options, **taken}


def _words(option: str, value: Any) -> str:  # noqa: ANN401 - an option's value
    """Return how an option with a value is typed; a URL is not told, for it may hold a password."""
    if value is True:
        return option
    if "://" in str(value):
        return f"{option} ..."
    return " ".join(f"{option} {one}" for one in (value if isinstance(value, tuple) else (value,)))


def _tell_ready(settings: Settings, mesh: Mesh, *, events_url: str) -> None:
    if settings.is_table:
        click.echo(
            f"ready: server {mesh.server}, clusters {', '.join(mesh.cluster_names)}, logs in {mesh.directory}/logs"
        )
        if mesh.events_topic:
            click.echo(f"job events: {mesh.events_topic} at {events_url}")
    else:
        told = {"server": mesh.server, "clusters": mesh.cluster_names, "directory": str(mesh.directory)}
        print_value(settings, {**told, "eventsTopic": mesh.events_topic} if mesh.events_topic else told)


@click.command()
@click.option("--purge", is_flag=True, help="Remove its database and logs as well.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
@click.pass_context
def down(context: click.Context, *, purge: bool, yes: bool) -> None:
    """Stop the mesh of `argosy up`; its jobs are kept, and `argosy up` goes on with them, unless --purge."""
    from argosy_local.mesh import Mesh

    mesh = Mesh(settings_of(context).mesh_directory)
    was_known, was_kept = mesh.is_known, mesh.is_kept
    if was_known:
        _remove_context(mesh)
    if purge and not yes and mesh.directory.exists():
        if not sys.stdin.isatty():
            raise click.UsageError(f"this would remove {mesh.directory} with all jobs; confirm with -y", context)
        ask(f"remove {mesh.directory} with all jobs?")
    if purge:
        mesh.down()
        click.echo("the mesh is stopped and removed" if was_known or was_kept else "no mesh was running", err=True)
    elif was_known:
        mesh.stop()
        click.echo(
            f"the mesh is stopped; its jobs are kept in {mesh.directory}: `argosy up` goes on with them, `argosy down"
            " --purge` removes them",
            err=True,
        )
    else:
        click.echo("no mesh was running", err=True)


@click.command()
@output_options
@click.pass_context
def status(context: click.Context) -> int:
    """Show the processes of the mesh of `argosy up`: state, health, CPU time and memory.

    Ends with exit code 4 if one of them does not serve.
    """
    from argosy_local.mesh import SUPERVISOR, Mesh

    settings = settings_of(context)
    mesh = Mesh(settings.mesh_directory)
    found = mesh.status()
    columns: list[Column[ProcessStatus]] = [
        Column("ROLE", lambda p: p.role),
        Column("STATE", lambda p: p.state),
        Column("HEALTH", _health_text),
        Column("PID", lambda p: str(p.pid), right=True),
        Column("RESTARTS", lambda p: str(p.restart_count), right=True),
        Column("CPU S", lambda p: f"{p.cpu_s:.2f}", right=True),
        Column("MEMORY", lambda p: amount_text("memory", p.rss_bytes), right=True),
        Column("ADDRESS", lambda p: p.address, wide=True),
        Column("LOG", lambda p: p.log, wide=True),
    ]
    print_rows(settings, found, columns, empty="no processes")
    watched = any(process.role == SUPERVISOR and process.health == "serving" for process in found)
    for process in found:
        if process.health == "serving":
            continue
        what = "has died" if process.state == "stopped" else "runs and does not answer that it serves"
        then = "is started again within a minute" if watched else "`argosy down`, then `argosy up` start it again"
        click.echo(f"{process.role} {what}: {then}; see {process.log}", err=True)
    return ExitCode.OK if all(process.health == "serving" for process in found) else ExitCode.UNAVAILABLE


def _add_context(mesh: Mesh) -> None:
    """Let commands and programs find a secured mesh by the context `local`, in use if no other is."""
    from argosy_client.contexts import ClientContext, read_contexts, write_contexts
    from argosy_local.security import ADMINISTRATOR

    known = read_contexts()
    there = known.contexts.get(_CONTEXT)
    if there is not None and not _is_of(mesh, there):
        click.echo(f"there is a context {_CONTEXT!r} of another server, which stays as it is", err=True)
        return
    made = ClientContext(server=mesh.server, credentials=mesh.credentials)
    current = known.current or _CONTEXT
    write_contexts(replace(known, current=current, contexts={**known.contexts, _CONTEXT: made}))
    then = "" if current == _CONTEXT else f"; `argosy context use {_CONTEXT}` lets commands talk to it"
    click.echo(f"context {_CONTEXT!r}: you are {ADMINISTRATOR} there{then}", err=True)


def _remove_context(mesh: Mesh) -> None:
    from argosy_client.contexts import read_contexts, write_contexts

    known = read_contexts()
    there = known.contexts.get(_CONTEXT)
    if there is not None and _is_of(mesh, there):
        rest = {name: one for name, one in known.contexts.items() if name != _CONTEXT}
        write_contexts(replace(known, current="" if known.current == _CONTEXT else known.current, contexts=rest))


def _is_of(mesh: Mesh, context: ClientContext) -> bool:
    return Path(context.credentials.authority_file).is_relative_to(mesh.directory)


def _health_text(process: ProcessStatus) -> str:
    return process.health if process.health == "serving" else click.style(process.health, fg="red")

"""`argosy cluster` and `argosy node`: the machines."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from argosy_cli.commands.drains import drain_cluster, drain_node, jobs_at
from argosy_cli.job_text import job_columns
from argosy_cli.options import Settings, common_options, duration, new_secret_file, read_amounts, settings_of
from argosy_cli.output import Column, age_text, amount_text, ask, cordon_text, print_one, print_rows, print_value
from argosy_cli.session import call
from argosy_core.errors import NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Cluster, Job, Node

__all__ = ["cluster", "node"]


_CAPACITY_HELP = "Most that it has of a resource, as cpu=64 or memory=1Ti; with commas, or repeated."


@click.group()
def cluster() -> None:
    """Show, bound, cordon, drain, invite, revoke and forget clusters."""


@click.group()
def node() -> None:
    """Show, cordon and drain nodes."""


cluster.add_command(drain_cluster)
node.add_command(drain_node)


@cluster.command("list")
@common_options
@click.pass_context
def list_clusters(context: click.Context) -> None:
    """List all clusters: who is connected, nodes, runs and capacity."""

    async def fetch(client: ArgosyClient) -> list[Cluster]:
        return [cluster async for cluster in client.list_clusters()]

    settings = settings_of(context)
    columns: list[Column[Cluster]] = [
        Column("NAME", lambda c: c.name),
        Column("CONNECTED", _connection_text),
        Column("CORDONED", lambda c: cordon_text(cordoned=c.cordoned, reason=c.cordon_reason)),
        Column("DELEGATED", lambda c: "yes" if c.delegated else "no", wide=True),
        Column("NODES", lambda c: f"{c.node_count:,}", right=True),
        Column("RUNS", lambda c: f"{c.run_count:,}", right=True),
        Column("FREE CPU", lambda c: _part_text(c, "cpu"), right=True),
        Column("FREE MEMORY", lambda c: _part_text(c, "memory"), right=True, wide=True),
        Column("CORDONED NODES", lambda c: str(len(c.cordoned_nodes)), right=True, wide=True),
        Column("POOLS", lambda c: ", ".join(c.pools), wide=True),
        Column("CONTACT", lambda c: age_text(c.contact_time), right=True),
    ]
    print_rows(settings, call(settings, fetch), columns, empty="no cluster has ever connected")


@cluster.command("get")
@click.argument("name")
@common_options
@click.pass_context
def get_cluster(context: click.Context, *, name: str) -> None:
    """Show one cluster."""
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.get_cluster(name)))


@cluster.command("cordon")
@click.argument("name")
@click.option("--reason", default="", help="Shown by `argosy cluster get`.")
@common_options
@click.pass_context
def cordon_cluster(context: click.Context, *, name: str, reason: str) -> None:
    """Place nothing more on a cluster; what runs goes on."""
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.cordon_cluster(name, reason)))


@cluster.command("uncordon")
@click.argument("name")
@common_options
@click.pass_context
def uncordon_cluster(context: click.Context, *, name: str) -> None:
    """Place on a cluster again."""
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.uncordon_cluster(name)))


@cluster.command("set")
@click.argument("name")
@click.option("--max-capacity", multiple=True, required=True, help=_CAPACITY_HELP + " `none` for no bound.")
@common_options
@click.pass_context
def set_cluster(context: click.Context, *, name: str, max_capacity: tuple[str, ...]) -> None:
    """Say what a cluster has at most; what its sampler tells beyond that counts for nobody's share."""
    settings = settings_of(context)
    amounts = {} if max_capacity == ("none",) else read_amounts(max_capacity, option="--max-capacity")
    _print(settings, call(settings, lambda client: client.set_max_capacity(name, amounts)))


@cluster.command("delegate")
@click.argument("name")
@click.option("--off", is_flag=True, help="Choose its nodes at the server again.")
@click.option(
    "--as-installed", is_flag=True, help="Leave it to the cluster again, from the next session of its sampler on."
)
@common_options
@click.pass_context
def delegate_cluster(context: click.Context, *, name: str, off: bool, as_installed: bool) -> None:
    """Have cluster NAME choose nodes by itself from now on.

    Leases then name the cluster only: its executor asks its sampler, and what fits no node goes elsewhere. What is said
    here goes before what the cluster asks for where it is installed, until --as-installed takes it back.
    """
    if off and as_installed:
        raise click.UsageError("--off and --as-installed say different things; give one of them.")
    settings = settings_of(context)
    delegated = None if as_installed else not off
    _print(settings, call(settings, lambda client: client.delegate_cluster(name, delegated=delegated)))


@cluster.command("forget")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def forget_cluster(context: click.Context, *, name: str, yes: bool) -> None:
    """Declare a cluster gone for good: its runs are lost and their jobs queued again.

    Only for a cluster that is not connected. If its pods still run somewhere, jobs may run twice.
    """
    settings = settings_of(context)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(f"this would forget {name}; confirm with -y", context)
    if not yes:
        ask(f"forget {name}, although jobs run twice if its pods still run?")
    lost_count = call(settings, lambda client: client.forget_cluster(name))
    if settings.is_table:
        click.echo(f"cluster {name} is forgotten; {lost_count} runs are lost, their jobs queued again")
    else:
        print_value(settings, {"name": name, "lostRunCount": lost_count})


@cluster.command("invite")
@click.argument("name")
@click.option("--lifetime", "lifetime_s", type=duration, default="1h", show_default=True, help="As in 90s, 6h or 7d.")
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="New file that gets the token, for the cluster alone (mode 0600).",
)
@click.option("--max-capacity", multiple=True, help=_CAPACITY_HELP)
@common_options
@click.pass_context
def invite_cluster(
    context: click.Context, *, name: str, lifetime_s: int, secret_file: Path, max_capacity: tuple[str, ...]
) -> None:
    """Draw a token with which each process of cluster NAME fetches its own certificate, once.

    Give it to them as `join.token_file`. From now on nothing else speaks for the cluster.
    """
    settings = settings_of(context)
    amounts = read_amounts(max_capacity, option="--max-capacity")
    with new_secret_file(context, secret_file) as file:
        invitation = call(
            settings, lambda client: client.invite_cluster(name, lifetime_s=lifetime_s, max_capacity=amounts)
        )
        file.write(invitation.token + "\n")
    if settings.is_table:
        click.echo(f"cluster {name} is invited until {invitation.expire_time:%Y-%m-%d %H:%M} UTC; see {secret_file}")
    else:
        print_value(settings, {"name": name, "expire_time": invitation.expire_time})


@cluster.command("revoke")
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def revoke_cluster(context: click.Context, *, name: str, yes: bool) -> None:
    """End whatever speaks for cluster NAME, within seconds, until it is invited again.

    Its pods go on, and nobody hears of them; `argosy cluster forget` then gives its jobs to others.
    """
    settings = settings_of(context)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(f"this would cut off {name}; confirm with -y", context)
    if not yes:
        ask(f"cut off {name}?")
    call(settings, lambda client: client.revoke_cluster(name))
    click.echo(f"cluster {name} is revoked")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedNode:
    """A node and where it is."""

    cluster: str
    node: Node


@node.command("list")
@click.argument("cluster_name", metavar="[CLUSTER]", default="")
@click.option("-l", "--selector", default="", help="Label selector.")
@common_options
@click.pass_context
def list_nodes(context: click.Context, *, cluster_name: str, selector: str) -> None:
    """List the nodes of CLUSTER, or those of all clusters, with their clusters."""

    async def fetch(client: ArgosyClient) -> list[_PlacedNode]:
        names = [cluster_name] if cluster_name else [cluster.name async for cluster in client.list_clusters()]
        return [
            _PlacedNode(cluster=name, node=node)
            for name in names
            async for node in client.list_nodes(name, label_selector=selector)
        ]

    settings = settings_of(context)
    found = call(settings, fetch)
    if not settings.is_table:
        print_value(settings, [one.node for one in found] if cluster_name else found)
        return
    columns: list[Column[Node]] = [
        Column("NAME", lambda n: n.name),
        Column("READY", lambda n: "yes" if n.ready else "no"),
        Column("CORDONED", lambda n: cordon_text(cordoned=n.cordoned, reason=n.cordon_reason)),
        Column("LAST CHOICE FOR", lambda n: ",".join(n.last_choice_for) or "-"),
        Column("FREE CPU", lambda n: _node_part_text(n, "cpu"), right=True),
        Column("FREE MEMORY", lambda n: _node_part_text(n, "memory"), right=True),
        Column("FREE", lambda n: _amounts_text(n.free), wide=True),
        Column("LABELS", lambda n: ",".join(f"{key}={value}" for key, value in n.labels.items()) or "-", wide=True),
    ]
    placed: list[Column[_PlacedNode]] = [] if cluster_name else [Column("CLUSTER", lambda one: one.cluster)]
    placed += [
        Column(column.title, lambda one, text=column.text: text(one.node), column.wide, column.right)  # type: ignore[misc]
        for column in columns
    ]
    print_rows(settings, found, placed, empty="no such nodes")


@node.command("get")
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("name", metavar="NODE")
@common_options
@click.pass_context
def get_node(context: click.Context, *, cluster_name: str, name: str) -> None:
    """Show NODE of CLUSTER, and the jobs that have a run on it."""

    async def fetch(client: ArgosyClient) -> tuple[Node, list[Job]]:
        found = [node async for node in client.list_nodes(cluster_name, node=name)]
        if not found:
            raise NotFound(f"cluster {cluster_name} has no node {name}; `argosy node list {cluster_name}` lists them")
        return found[0], await jobs_at(client, cluster_name, name)

    settings = settings_of(context)
    value, jobs = call(settings, fetch)
    if not settings.is_table:
        print_value(settings, {"node": value, "jobs": jobs})
        return
    lines = [
        ("name", value.name),
        ("ready", "yes" if value.ready else "no"),
        ("cordoned", cordon_text(cordoned=value.cordoned, reason=value.cordon_reason)),
        ("allocatable", _amounts_text(value.allocatable)),
        ("free", _amounts_text(value.free)),
        ("labels", ", ".join(f"{key}={text}" for key, text in sorted(value.labels.items()))),
        ("last choice for", ", ".join(value.last_choice_for)),
    ]
    print_one(settings, value, lines)
    print_rows(settings, jobs, job_columns(), empty="no job has a run on it")


@node.command("cordon")
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("name", metavar="NODE")
@click.option("--reason", default="", help="Shown by `argosy cluster get` and `argosy node list`.")
@click.option("--allow-missing", is_flag=True, help="Cordon a node that is not there, should it come.")
@common_options
@click.pass_context
def cordon_node(context: click.Context, *, cluster_name: str, name: str, reason: str, allow_missing: bool) -> None:
    """Place nothing more on NODE of CLUSTER; what runs goes on.

    The cordon stays when the node goes, and holds again when it comes back.
    """
    settings = settings_of(context)
    _print(
        settings,
        call(settings, lambda client: client.cordon_node(cluster_name, name, reason, allow_missing=allow_missing)),
    )


@node.command("uncordon")
@click.argument("cluster_name", metavar="CLUSTER")
@click.argument("name", metavar="NODE")
@common_options
@click.pass_context
def uncordon_node(context: click.Context, *, cluster_name: str, name: str) -> None:
    """Place on NODE of CLUSTER again."""
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.uncordon_node(cluster_name, name)))


def _connection_text(value: Cluster) -> str:
    if value.sampler_connected and value.executor_connected:
        return "yes"
    parts = [
        name for name, is_on in (("sampler", value.sampler_connected), ("executor", value.executor_connected)) if is_on
    ]
    return f"{parts[0]} only" if parts else click.style("no", fg="red")


def _part_text(value: Cluster, resource: str) -> str:
    free, total = value.free.get(resource, 0), value.total.get(resource, 0)
    return f"{amount_text(resource, free)} of {amount_text(resource, total)}"


def _node_part_text(value: Node, resource: str) -> str:
    free, total = value.free.get(resource, 0), value.allocatable.get(resource, 0)
    return f"{amount_text(resource, free)} of {amount_text(resource, total)}"


def _amounts_text(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{resource} {amount_text(resource, amount)}" for resource, amount in sorted(amounts.items()))


def _print(settings: Settings, value: Cluster) -> None:
    lines = [
        ("name", value.name),
        ("pools", ", ".join(value.pools)),
        ("connected", _connection_text(value)),
        ("cordoned", cordon_text(cordoned=value.cordoned, reason=value.cordon_reason)),
        ("delegated", "yes, its sampler chooses nodes" if value.delegated else "no"),
        ("nodes", f"{value.node_count:,}"),
        ("runs", f"{value.run_count:,}"),
        ("total", _amounts_text(value.total)),
        ("free", _amounts_text(value.free)),
        ("told, and not all counted", _amounts_text(value.told)),
        ("max capacity", _amounts_text(value.max_capacity)),
        ("last contact", age_text(value.contact_time)),
        ("cordoned nodes", ", ".join(f"{n} ({why})" if why else n for n, why in value.cordoned_nodes.items())),
    ]
    print_one(settings, value, lines)

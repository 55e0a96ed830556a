"""`argosy queue`: make, show, change, cordon and delete queues."""

from __future__ import annotations

import dataclasses
import json
from typing import IO, TYPE_CHECKING

import click

from argosy_cli.options import FiniteRange, Settings, common_options, read_amounts, settings_of
from argosy_cli.output import Column, age_text, amount_text, cordon_text, print_one, print_rows, print_value
from argosy_cli.session import call

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, Queue

__all__ = ["queue"]

_options = (
    click.option(
        "--preempts-unexpired/--spares-unexpired",
        default=None,
        help="Runs not past their lifetimes make room for its jobs while it is under its share; else they do not.",
    ),
    click.option(
        "--preempts-endless/--spares-endless", default=None, help="So do runs without a lifetime; else they do not."
    ),
    click.option("--submit-rate", type=FiniteRange(0, 1_000_000), help="Most jobs submitted a second; 0 for no limit."),
    click.option("--lease-rate", type=FiniteRange(0, 1_000_000), help="Most jobs begun a second; 0 for no limit."),
)
_AMOUNT_HELP = "Most of a resource that its jobs hold at once, as cpu=64 or memory=1Ti; may be repeated."


@click.group()
def queue() -> None:
    """Make, show, change, cordon and delete queues."""


@queue.command("create")
@click.argument("name")
@click.option("--weight", type=FiniteRange(0, 1_000_000), default=1.0, show_default=True, help="Weight of its share.")
@click.option("--pool", default="", help="Pool that schedules its jobs; the default one if not given.")
@click.option("--namespace", "namespaces", multiple=True, help="Namespace its jobs may use; may be repeated.")
@click.option(
    "--max-queued", type=click.IntRange(0), default=0, help="Most jobs that may wait; 0 for the server's limit."
)
@click.option("--parent", default="", help="Queue that it stands below and shares with.")
@click.option("--max-running", type=click.IntRange(0), default=0, help="Most jobs at once; 0 for no limit.")
@click.option("--max-amount", "max_amounts", multiple=True, help=_AMOUNT_HELP)
@_options[0]
@_options[1]
@_options[2]
@_options[3]
@common_options
@click.pass_context
def create(  # noqa: PLR0913 - an option each
    context: click.Context,
    *,
    name: str,
    weight: float,
    pool: str,
    namespaces: tuple[str, ...],
    max_queued: int,
    parent: str,
    max_running: int,
    max_amounts: tuple[str, ...],
    submit_rate: float | None,
    lease_rate: float | None,
    preempts_unexpired: bool | None,
    preempts_endless: bool | None,
) -> None:
    """Make a queue; an equal one by its name is success."""
    from argosy_client import Queue

    wanted = Queue(
        name=name,
        weight=weight,
        pool=pool,
        namespaces=namespaces,
        max_queued_count=max_queued,
        parent=parent,
        max_running_count=max_running,
        max_running_amounts=read_amounts(max_amounts, option="--max-amount"),
        submit_rate_per_s=submit_rate or 0.0,
        lease_rate_per_s=lease_rate or 0.0,
        preempts_unexpired=bool(preempts_unexpired),
        preempts_endless=bool(preempts_endless),
    )
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.create_queue(wanted)))


@queue.command("list")
@common_options
@click.pass_context
def list_(context: click.Context) -> None:
    """List all queues."""

    async def fetch(client: ArgosyClient) -> list[Queue]:
        return [queue async for queue in client.list_queues()]

    settings = settings_of(context)
    columns: list[Column[Queue]] = [
        Column("NAME", lambda q: q.name),
        Column("WEIGHT", lambda q: f"{q.weight:g}", right=True),
        Column("PARENT", lambda q: q.parent or "-"),
        Column("CORDONED", lambda q: cordon_text(cordoned=q.cordoned, reason=q.cordon_reason)),
        Column("POOL", lambda q: q.pool, wide=True),
        Column("MAX QUEUED", lambda q: str(q.max_queued_count or "-"), wide=True, right=True),
        Column("MAX RUNNING", lambda q: str(q.max_running_count or "-"), wide=True, right=True),
        Column("SUBMITS/S", lambda q: _rate_text(q.submit_rate_per_s) or "-", wide=True, right=True),
        Column("LEASES/S", lambda q: _rate_text(q.lease_rate_per_s) or "-", wide=True, right=True),
        Column("NAMESPACES", lambda q: ",".join(q.namespaces) or "-", wide=True),
        Column("AGE", lambda q: age_text(q.create_time), right=True),
    ]
    print_rows(settings, call(settings, fetch), columns, empty="no queues; make one with `argosy queue create`")


@queue.command("get")
@click.argument("name")
@common_options
@click.pass_context
def get(context: click.Context, *, name: str) -> None:
    """Show one queue."""
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.get_queue(name)))


@queue.command("update")
@click.argument("name")
@click.option("--weight", type=FiniteRange(0, 1_000_000), help="New weight.")
@click.option("--namespace", "namespaces", multiple=True, help="New list of namespaces; may be repeated.")
@click.option("--max-queued", type=click.IntRange(0), help="New limit of waiting jobs.")
@click.option("--parent", help="Queue to stand below, with its jobs and all below it; empty for none.")
@click.option("--max-running", type=click.IntRange(0), help="New limit of jobs at once; 0 for none.")
@click.option("--max-amount", "max_amounts", multiple=True, help=f"{_AMOUNT_HELP} Give `none` for no such limits.")
@_options[0]
@_options[1]
@_options[2]
@_options[3]
@common_options
@click.pass_context
def update(  # noqa: PLR0913 - an option each
    context: click.Context,
    *,
    name: str,
    weight: float | None,
    namespaces: tuple[str, ...],
    max_queued: int | None,
    parent: str | None,
    max_running: int | None,
    max_amounts: tuple[str, ...],
    submit_rate: float | None,
    lease_rate: float | None,
    preempts_unexpired: bool | None,
    preempts_endless: bool | None,
) -> None:
    """Change what is given and leave the rest; refused if somebody else changed the queue meanwhile."""
    given = {
        "weight": weight,
        "namespaces": namespaces or None,
        "max_queued_count": max_queued,
        "parent": parent,
        "max_running_count": max_running,
        "submit_rate_per_s": submit_rate,
        "lease_rate_per_s": lease_rate,
        "preempts_unexpired": preempts_unexpired,
        "preempts_endless": preempts_endless,
    }
    changes: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if max_amounts:
        changes["max_running_amounts"] = (
            {} if max_amounts == ("none",) else read_amounts(max_amounts, option="--max-amount")
        )
    if not changes:
        raise click.UsageError("nothing to change: give an option, such as --weight", context)

    async def change(client: ArgosyClient) -> Queue:
        current = await client.get_queue(name)
        return await client.update_queue(dataclasses.replace(current, **changes), tuple(changes))  # type: ignore[arg-type]

    settings = settings_of(context)
    _print(settings, call(settings, change))


@queue.command("delete")
@click.argument("name")
@common_options
@click.pass_context
def delete(context: click.Context, *, name: str) -> None:
    """Delete a queue without open jobs."""
    settings = settings_of(context)
    call(settings, lambda client: client.delete_queue(name))
    click.echo(f"queue {name} deleted", err=not settings.is_table)


@queue.command("cordon")
@click.argument("name")
@click.option("--reason", default="", help="Shown by `argosy explain`.")
@common_options
@click.pass_context
def cordon(context: click.Context, *, name: str, reason: str) -> None:
    """Let no more jobs of a queue start; running ones go on."""
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.cordon_queue(name, reason)))


@queue.command("uncordon")
@click.argument("name")
@common_options
@click.pass_context
def uncordon(context: click.Context, *, name: str) -> None:
    """Let jobs of a queue start again."""
    settings = settings_of(context)
    _print(settings, call(settings, lambda client: client.uncordon_queue(name)))


@queue.group()
def policy() -> None:
    """Show and set what a queue lets its jobs' pods do."""


@policy.command("get")
@click.argument("name")
@common_options
@click.pass_context
def get_policy(context: click.Context, *, name: str) -> None:
    """Show the policy of a queue, as a file for `argosy queue policy set`."""
    settings = settings_of(context)
    found = call(settings, lambda client: client.get_queue_policy(name))
    value = json.loads(found.document or "{}")
    if found.inherited_from:
        click.echo(f"# queue {name} has the policy of queue {found.inherited_from} above it", err=not settings.is_table)
    if not settings.is_table:
        print_value(settings, value)
    elif not found.document:
        click.echo(f"# queue {name} has the installation's policy")
    else:
        print_value(dataclasses.replace(settings, output="yaml"), value)


@policy.command("set")
@click.argument("name")
@click.option("-f", "--file", type=click.File(encoding="utf-8"), help="YAML or JSON; `-` reads standard input.")
@click.option("--none", "is_none", is_flag=True, help="Take it away; that of the queue above holds then, if any.")
@common_options
@click.pass_context
def set_policy(context: click.Context, *, name: str, file: IO[str] | None, is_none: bool) -> None:
    """Say what a queue lets its jobs' pods do, from now on; docs/security.md has the keys."""
    from argosy_client.yaml_nodes import read_yaml

    if (file is None) != is_none:
        raise click.UsageError("give a policy with -f, or --none", context)
    document = ""
    if file is not None:
        documents = [one.value for one in read_yaml(file.read(), "policy")]
        if len(documents) != 1:
            raise click.UsageError(f"the file holds {len(documents)} documents; a queue has one policy", context)
        document = json.dumps(documents[0])
    settings = settings_of(context)
    call(settings, lambda client: client.set_queue_policy(name, document))
    click.echo(f"queue {name} has " + ("no policy of its own" if is_none else "this policy"))


def _rate_text(per_s: float) -> str:
    return f"{per_s:g}" if per_s else ""


def _preempts_text(value: Queue) -> str:
    kinds = {"work not past its lifetime": value.preempts_unexpired, "work without a lifetime": value.preempts_endless}
    return ", ".join(text for text, is_given in kinds.items() if is_given)


def _print(settings: Settings, value: Queue) -> None:
    lines = [
        ("name", value.name),
        ("weight", f"{value.weight:g}"),
        ("pool", value.pool),
        ("parent", value.parent),
        ("cordoned", cordon_text(cordoned=value.cordoned, reason=value.cordon_reason)),
        ("namespaces", ", ".join(value.namespaces)),
        ("most queued jobs", str(value.max_queued_count or "")),
        ("most running jobs", str(value.max_running_count or "")),
        ("most submits a second", _rate_text(value.submit_rate_per_s)),
        ("most leases a second", _rate_text(value.lease_rate_per_s)),
        ("preempts", _preempts_text(value)),
        ("most at once", ", ".join(f"{k}={amount_text(k, v)}" for k, v in sorted(value.max_running_amounts.items()))),
    ]
    print_one(settings, value, lines)

"""`argosy config`: settings of a pool's rounds that change while it is led."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from argosy_cli.options import common_options, settings_of
from argosy_cli.output import Column, age_text, print_rows, print_value
from argosy_cli.session import call

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, PoolSetting, PoolSettingsVersion

__all__ = ["config"]

_pool_option = click.option("--pool", default="", help="Pool; the default one if not given.")
_comment_option = click.option("--comment", default="", help="Why, for whoever reads the history.")
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only check.")


@click.group()
def config() -> None:
    """Show and change settings of a pool's rounds while it is led: weights, half time, limits, plugins."""


@config.command("get")
@click.argument("keys", nargs=-1)
@click.option("--changed", is_flag=True, help="Only what is set.")
@_pool_option
@common_options
@click.pass_context
def get(context: click.Context, *, keys: tuple[str, ...], changed: bool, pool: str) -> None:
    """Show settings, those whose keys hold one of KEYS, with what the leader's own configuration says."""
    settings = settings_of(context)
    answer = call(settings, lambda client: client.get_pool_settings(pool))
    if not settings.is_table:
        print_value(settings, answer if settings.output != "jsonl" else answer.settings)
        return
    rows = [
        one
        for one in answer.settings
        if (one.is_set or not changed) and (not keys or any(key in one.key for key in keys))
    ]
    columns: list[Column[PoolSetting]] = [
        Column("KEY", lambda one: one.key),
        Column("VALUE", lambda one: one.value),
        Column("CONFIGURED", lambda one: one.configured_value if one.is_set else "-"),
        Column("MEANING", lambda one: one.text, wide=True),
    ]
    print_rows(settings, rows, columns, empty="nothing is set" if changed else "no setting has such a key")
    if answer.newest.version != answer.version_in_effect and not answer.fault:
        click.echo(f"version {answer.newest.version} holds from the next round on", err=True)
    if answer.fault:
        click.echo(f"warning: {answer.fault}", err=True)


@config.command("set")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@_comment_option
@_dry_run_option
@_pool_option
@common_options
@click.pass_context
def set_values(context: click.Context, *, pairs: tuple[str, ...], comment: str, dry_run: bool, pool: str) -> None:
    """Set settings, all or none, from the next round on; keys are those of `argosy config get`."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or key in values:
            raise click.UsageError(f"{pair!r} is no KEY=VALUE" if not equals or not key else f"{key} is set twice")
        values[key] = value
    _change(context, values, unset=(), comment=comment, dry_run=dry_run, pool=pool)


@config.command("unset")
@click.argument("keys", nargs=-1, required=True)
@_comment_option
@_dry_run_option
@_pool_option
@common_options
@click.pass_context
def unset(context: click.Context, *, keys: tuple[str, ...], comment: str, dry_run: bool, pool: str) -> None:
    """Let the leader's own configuration hold again for KEYS."""
    _change(context, {}, unset=keys, comment=comment, dry_run=dry_run, pool=pool)


def _change(
    context: click.Context, values: dict[str, str], *, unset: tuple[str, ...], comment: str, dry_run: bool, pool: str
) -> None:
    settings = settings_of(context)
    version = call(
        settings,
        lambda client: client.set_pool_settings(values, pool=pool, unset=unset, comment=comment, validate_only=dry_run),
    )
    if not settings.is_table:
        print_value(settings, version)
    elif dry_run:
        click.echo("it would be taken")
    else:
        click.echo(f"version {version.version} holds from the next round on")


@config.command("history")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most versions.")
@_pool_option
@common_options
@click.pass_context
def history(context: click.Context, *, limit: int, pool: str) -> None:
    """Show what was set, by whom, when and why, the newest first."""
    settings = settings_of(context)

    async def fetch(client: ArgosyClient) -> list[PoolSettingsVersion]:
        found: list[PoolSettingsVersion] = []
        async for version in client.list_pool_settings(pool, page_size=limit):
            found.append(version)
            if len(found) == limit:
                break
        return found

    columns: list[Column[PoolSettingsVersion]] = [
        Column("VERSION", lambda one: str(one.version), right=True),
        Column("AGE", lambda one: age_text(one.create_time), right=True),
        Column("WHO", lambda one: one.principal or "-"),
        Column("SET", lambda one: " ".join(f"{k}={v}" for k, v in sorted(one.settings.items())) or "-"),
        Column("COMMENT", lambda one: one.comment or "-"),
    ]
    print_rows(settings, call(settings, fetch), columns, empty="nothing was ever set")

"""`argosy admin setup-log` and `check-log`: the topics of an installation on Pulsar."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import click

from argosy_cli.exits import ExitCode
from argosy_cli.options import output_options, settings_of
from argosy_cli.output import print_value

__all__ = ["check_log_command", "setup_log"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PREFIX = "ARGOSY_SERVER_"
_PAUSE_S = 0.5


def _broker_options(function: _Function) -> _Function:
    """Add what says where the broker is; everything may come from the variables that servers read, too."""
    for option in (
        click.option("--token-file", default="", metavar="FILE", help="File that holds the bearer token."),
        click.option("--tls-trust-file", default="", metavar="FILE", help="PEM file of authorities for TLS."),
        click.option("--events-namespace", default="", help="Namespace of job events [default: events]."),
        click.option("--namespace", default="", help="Namespace of the log [default: log]."),
        click.option("--tenant", default="", help="Tenant [default: argosy]."),
        click.option(
            "--admin-url", default="", metavar="URL", help="Admin API, as in http://host:8080; else the usual port."
        ),
        click.option(
            "--event-log-url",
            default="",
            metavar="URL",
            help="Brokers, as in pulsar://host:6650; else ARGOSY_SERVER_EVENT_LOG_URL. What is not given is taken from"
            " the variables that servers read, as ARGOSY_SERVER_PULSAR_TENANT.",
        ),
        click.option("--pool", "pools", multiple=True, help="Pool; repeat for several [default: default]."),
    ):
        function = option(function)
    return function


@click.command("setup-log")
@_broker_options
@click.option("--events", is_flag=True, help="Make the topics of job events, too.")
@click.option(
    "--events-url",
    default="",
    metavar="URL",
    help="Brokers of job events, if they are others; else ARGOSY_SERVER_EVENTS_URL, else those of the log.",
)
@click.option(
    "--events-admin-url",
    default="",
    metavar="URL",
    help="Admin API of those brokers, if they are others; else the usual port.",
)
@click.option(
    "--retention-minutes",
    type=click.IntRange(-1),
    default=60,
    show_default=True,
    help="How long applied records stay, to be looked at; -1 for ever. What is not applied always stays.",
)
@click.option(
    "--retention-mebibytes",
    type=click.IntRange(-1),
    default=1024,
    show_default=True,
    help="How much of them stays; -1 for any amount.",
)
@output_options
@click.pass_context
def setup_log(
    context: click.Context,
    /,
    *,
    events: bool,
    events_url: str,
    events_admin_url: str,
    retention_minutes: int,
    retention_mebibytes: int,
    pools: tuple[str, ...],
    **broker: str,
) -> None:
    """Make tenant, namespace, policies and topics of the event log on Pulsar, and those of job events where they go.

    Where the log is in the database, only those of job events are made. Repeating it changes nothing that is right, and
    sets policies right that are not.
    """
    from argosy_eventlog.pulsar.admin import AdminApi, check_log, set_up_events, set_up_log

    events_url = events_url or _variable("EVENTS_URL") if events else ""
    url, settings = _pulsar(broker, may_be_missing=bool(events_url))
    if not url and not events_url:
        click.echo("the event log is kept in the database: there is nothing to set up", err=True)
        return
    admin = AdminApi(url, settings) if url else None
    events_admin = admin if events_url in {"", url} else _events_admin(events_url, events_admin_url, url, settings)
    chosen = list(pools) or [_variable("POOL") or "default"]
    made: list[str] = []

    def set_up() -> None:
        if admin is not None:
            retained = {"retention_minutes": retention_minutes, "retention_mebibytes": retention_mebibytes}
            made.extend(set_up_log(admin, settings, chosen, **retained))
        if events and events_admin is not None:
            made.extend(set_up_events(events_admin, settings, chosen))
        if admin is not None:
            for pool in chosen:
                check_log(admin, settings, pool)

    _patiently(set_up, settings_of(context).timeout_s)
    topics = [settings.log_topic(pool) for pool in chosen] if admin is not None else []
    if settings_of(context).is_table:
        for line in made:
            click.echo(f"made {line}")
        click.echo(f"the log is safe at {', '.join(topics)}" if topics else "the event log is kept in the database")
    else:
        print_value(settings_of(context), {"made": made, "topics": topics})


def _events_admin(events_url: str, events_admin_url: str, log_url: str, settings: Any) -> Any:  # noqa: ANN401 - late
    """Return the API of brokers that have events alone.

    The admin URL of the settings is that of the log's brokers, unless there are none.
    """
    from argosy_eventlog.pulsar.admin import AdminApi

    named = events_admin_url or ("" if log_url else settings.admin_url)
    return AdminApi(events_url, replace(settings, admin_url=named))


@click.command("check-log")
@_broker_options
@output_options
@click.pass_context
def check_log_command(context: click.Context, /, *, pools: tuple[str, ...], **broker: str) -> int:
    """Look whether the broker would keep every record of the event log, once.

    Servers look by themselves before they lead. Ends with exit code 1 if a setting is wrong, after naming each.
    """
    from argosy_core.errors import NotAllowedNow
    from argosy_eventlog.pulsar.admin import AdminApi, check_log

    url, settings = _pulsar(broker)
    if not url:
        click.echo("the event log is kept in the database: there is nothing to check", err=True)
        return ExitCode.OK
    admin = AdminApi(url, settings)
    faults: list[dict[str, str]] = []
    for pool in pools or (_variable("POOL") or "default",):
        try:
            _patiently(partial(check_log, admin, settings, pool), settings_of(context).timeout_s)
        except NotAllowedNow as error:
            named = [{"setting": one.field, "fault": one.description} for one in error.violations]
            faults += [{"pool": pool, **one} for one in named or [{"setting": "log:", "fault": error.message}]]
    if not settings_of(context).is_table:
        print_value(settings_of(context), {"faults": faults})
    elif faults:
        for fault in faults:
            click.echo(f"pool {fault['pool']}: {fault['setting']} {fault['fault']}")
    else:
        click.echo("the log is safe")
    return ExitCode.SERVER if faults else ExitCode.OK


def _pulsar(broker: dict[str, str], *, may_be_missing: bool = False) -> tuple[str, Any]:
    """Return the URL and the settings that flags and variables say; no URL where a variable says that there is none."""
    from argosy_eventlog.pulsar import PulsarSettings

    url = broker.pop("event_log_url") or _variable("EVENT_LOG_URL")
    if not url and not may_be_missing and _PREFIX + "EVENT_LOG_URL" not in os.environ:
        raise click.UsageError("say where the brokers are: --event-log-url pulsar://host:6650")
    values: dict[str, Any] = {name: value or _variable(f"PULSAR_{name.upper()}") for name, value in broker.items()}
    values["token"] = _variable("PULSAR_TOKEN") if not values["token_file"] else ""
    return url, PulsarSettings(**{name: value for name, value in values.items() if value})


def _patiently(call: Callable[[], None], timeout_s: float) -> None:
    """Call until the broker answers; one that begins to run with us may take some seconds.

    Raises:
        BackendUnavailable: It did not within the time.
    """
    from argosy_core.errors import BackendUnavailable

    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            call()
        except BackendUnavailable:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _variable(name: str) -> str:
    return os.environ.get(_PREFIX + name, "")

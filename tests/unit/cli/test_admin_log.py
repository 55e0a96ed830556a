"""`argosy admin setup-log` and `check-log` without a broker: what they need, and when there is nothing to do."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from argosy_cli.commands.admin_log import check_log_command, setup_log
from argosy_cli.options import Settings

VARIABLE = "ARGOSY_SERVER_EVENT_LOG_URL"


@pytest.mark.parametrize("command", [setup_log, check_log_command], ids=["setup-log", "check-log"])
@pytest.mark.parametrize(
    ("arguments", "environment", "code", "said"),
    [
        ([], {}, 2, "--event-log-url"),
        ([], {VARIABLE: ""}, 0, "kept in the database"),
        (["--event-log-url", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1"], {}, 1, "does not answer"),
        ([], {VARIABLE: "pulsar://127.0.0.1:1", "ARGOSY_SERVER_PULSAR_ADMIN_URL": "http://127.0.0.1:1"}, 1, ":1"),
        ([], {VARIABLE: "nonsense"}, 1, "pulsar://host:6650"),
        (["--event-log-url", "pulsar://b:1", "--tenant", "a/b"], {}, 1, "pulsar.tenant"),
    ],
    ids=["nothing-said", "postgres", "away", "by-variables", "no-url", "no-tenant"],
)
def test_commands_say_what_they_need(
    command: object, arguments: list[str], environment: dict[str, str], *, code: int, said: str
) -> None:
    """Flags go before variables; a variable that is there and empty means the log in the database."""
    result = CliRunner(env={VARIABLE: None, **environment}).invoke(
        command,
        arguments,
        obj=Settings(timeout_s=0.0),  # type: ignore[arg-type]
    )
    assert result.exit_code == code
    assert said in result.output + str(getattr(result.exception, "message", ""))


LOG, EVENTS = "pulsar://127.0.0.1:1", "pulsar://127.0.0.2:1"


@pytest.mark.parametrize(
    ("environment", "arguments", "asked"),
    [
        ({VARIABLE: LOG, "ARGOSY_SERVER_EVENTS_URL": EVENTS}, [], "127.0.0.1"),
        ({VARIABLE: "", "ARGOSY_SERVER_EVENTS_URL": EVENTS}, [], "127.0.0.2"),
        ({}, ["--events-url", EVENTS], "127.0.0.2"),
        ({VARIABLE: LOG}, [], "127.0.0.1"),
    ],
    ids=["apart", "log in the database", "by a flag alone", "together"],
)
def test_setup_goes_to_the_brokers_of_the_log_first_and_to_those_of_events(
    environment: dict[str, str], arguments: list[str], asked: str
) -> None:
    """Nobody is asked to make topics of the other."""
    cleared = {VARIABLE: None, "ARGOSY_SERVER_EVENTS_URL": None}
    result = CliRunner(env={**cleared, **environment}).invoke(
        setup_log, ["--events", *arguments], obj=Settings(timeout_s=0.0)
    )
    assert f"http://{asked}:8080" in str(getattr(result.exception, "message", result.output))


def test_check_of_a_log_in_the_database_asks_no_brokers_of_events() -> None:
    """They have no log."""
    environment = {VARIABLE: "", "ARGOSY_SERVER_EVENTS_URL": EVENTS}
    result = CliRunner(env=environment).invoke(check_log_command, [], obj=Settings(timeout_s=0.0))
    assert "kept in the database" in result.output

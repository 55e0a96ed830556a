"""Which log a leader publishes to follows from one setting, and a broker that cannot be trusted is not led on."""

from __future__ import annotations

import pytest

from argosy_core.errors import InvalidRequest
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.log import PulsarLog
from argosy_runtime.config import load_config
from argosy_server.config import ServerConfig
from argosy_server.leader.log.choice import await_safe_log, open_log
from argosy_store.log import PostgresLog

DATABASE = "postgresql://nobody@127.0.0.1:1/none"


def test_the_database_keeps_the_log_unless_a_broker_is_named() -> None:
    """Nothing is dialled."""
    for url, kind in (("", PostgresLog), ("pulsar://127.0.0.1:1", PulsarLog)):
        log = open_log(ServerConfig(database_url=DATABASE, event_log_url=url))
        assert type(log) is kind
        log.close()


def test_a_url_of_another_kind_is_refused() -> None:
    """At the start, with the form that would be right."""
    with pytest.raises(InvalidRequest, match="pulsar://host:6650"):
        open_log(ServerConfig(database_url=DATABASE, event_log_url="kafka://127.0.0.1:9092"))


def test_records_that_the_log_would_refuse_are_refused_at_the_start() -> None:
    """Not on the day of the first large round."""
    small = PulsarSettings(max_message_bytes=1_000_000)
    with pytest.raises(InvalidRequest, match="max_record_bytes"):
        open_log(ServerConfig(database_url=DATABASE, event_log_url="pulsar://127.0.0.1:1", pulsar=small))


@pytest.mark.parametrize(("url", "check"), [("", True), ("pulsar://127.0.0.1:1", False)], ids=["postgres", "unchecked"])
async def test_there_is_nothing_to_check_without_a_broker_or_where_it_is_not_wanted(url: str, *, check: bool) -> None:
    """The check ends at once."""
    config = ServerConfig(database_url=DATABASE, event_log_url=url, pulsar=PulsarSettings(check=check))
    await await_safe_log(config)


def test_settings_come_from_flags_variables_and_a_secret_stays_hidden() -> None:
    """Each part by its own name; what cannot be is refused."""
    config = load_config(
        ServerConfig,
        ["--database-url", DATABASE, "--event-log-url", "pulsar://b:6650", "--pulsar-tenant", "t"],
        {"ARGOSY_SERVER_PULSAR_TOKEN": "s3cret", "ARGOSY_SERVER_PULSAR_CHECK": "false"},
    )
    assert (config.event_log_url, config.pulsar.tenant, config.pulsar.check) == ("pulsar://b:6650", "t", False)
    assert config.pulsar.token == "s3cret"
    from argosy_runtime.config import describe_config

    assert "s3cret" not in str(describe_config(config))

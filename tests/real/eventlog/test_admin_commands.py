"""`argosy admin setup-log` and `check-log` against a real broker."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
from click.testing import CliRunner

from argosy_cli.commands.admin_log import check_log_command, setup_log
from argosy_cli.options import Settings
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.admin import AdminApi


def test_a_log_is_set_up_found_wrong_and_set_right(pulsar_broker: Any) -> None:
    """The exit codes are what scripts decide by; the second setting-up makes nothing."""
    tenant = f"t{secrets.token_hex(4)}"
    environment = {
        "ARGOSY_SERVER_EVENT_LOG_URL": pulsar_broker.service_url,
        "ARGOSY_SERVER_PULSAR_ADMIN_URL": pulsar_broker.admin_url,
        "ARGOSY_SERVER_PULSAR_TENANT": tenant,
    }
    runner = CliRunner(env=environment)
    chosen = ["--pool", "a", "--pool", "b"]

    missing = runner.invoke(check_log_command, chosen, obj=Settings())
    assert (missing.exit_code, missing.output.count("setup-log")) == (0, 2)  # the code is returned to the caller
    made = runner.invoke(setup_log, [*chosen, "--events", "-o", "json"], obj=Settings())
    document = json.loads(made.output)
    assert made.exit_code == 0
    assert len(document["made"]) == 11  # tenant, two pools, events of each and the audit
    assert document["topics"] == [f"persistent://{tenant}/log/leases-{pool}" for pool in ("a", "b")]
    again = runner.invoke(setup_log, [*chosen, "--events", "-o", "json"], obj=Settings())
    assert json.loads(again.output)["made"] == []

    admin = AdminApi(pulsar_broker.service_url, PulsarSettings(admin_url=pulsar_broker.admin_url))
    admin.call("POST", f"namespaces/{tenant}/log/messageTTL", 60)
    wrong = runner.invoke(check_log_command, [*chosen, "-o", "json"], obj=Settings())
    assert [fault["setting"] for fault in json.loads(wrong.output)["faults"]] == ["messageTTL", "messageTTL"]
    runner.invoke(setup_log, chosen, obj=Settings())
    right = runner.invoke(check_log_command, chosen, obj=Settings())
    assert "the log is safe" in right.output


@pytest.mark.parametrize("apart", [False, True], ids=["log in the database", "log on other brokers"])
def test_topics_of_events_are_made_on_their_own_brokers(pulsar_broker: Any, *, apart: bool) -> None:
    """Where the log is elsewhere, no namespace of it is made here."""
    tenant = f"t{secrets.token_hex(4)}"
    environment = {
        "ARGOSY_SERVER_EVENT_LOG_URL": pulsar_broker.service_url if apart else "",
        "ARGOSY_SERVER_PULSAR_ADMIN_URL": pulsar_broker.admin_url,
        "ARGOSY_SERVER_PULSAR_TENANT": tenant,
        "ARGOSY_SERVER_EVENTS_URL": "pulsar://127.0.0.1:1" if apart else pulsar_broker.service_url,
    }
    result = CliRunner(env=environment).invoke(setup_log, ["--events", "-o", "json"], obj=Settings(timeout_s=0.0))
    admin = AdminApi(pulsar_broker.service_url, PulsarSettings(admin_url=pulsar_broker.admin_url))
    there = admin.call("GET", f"namespaces/{tenant}")
    if apart:  # the log was set up here; then those other brokers do not answer
        assert "127.0.0.1" in getattr(result.exception, "message", "")
        assert there == [f"{tenant}/log"]
    else:
        assert json.loads(result.output)["topics"] == []
        assert there == [f"{tenant}/events", f"{tenant}/events-audit"]

"""The check before a leader stands: a broker that would lose records, or keep some twice, is refused by name.

Source: design section 5, "Ingest": nothing that was published is lost, nothing is applied twice.
"""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable, InvalidRequest, NotAllowedNow
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.admin import AdminApi, check_log, set_up_events, set_up_log
from argosy_eventlog.pulsar.settings import SUBSCRIPTION
from argosy_server.config import ServerConfig
from argosy_server.leader.log.choice import await_safe_log


@pytest.fixture
def settings(pulsar_broker: Any) -> PulsarSettings:
    """Give a tenant and namespaces that nobody else uses."""
    return PulsarSettings(admin_url=pulsar_broker.admin_url, tenant=f"t{secrets.token_hex(4)}")


@pytest.fixture
def admin(pulsar_broker: Any, settings: PulsarSettings) -> AdminApi:
    """Give the admin API."""
    return AdminApi(pulsar_broker.service_url, settings)


def test_setting_up_makes_a_safe_log_and_again_makes_nothing(admin: AdminApi, settings: PulsarSettings) -> None:
    """Tenant, namespace, a topic and a subscription per pool; repeating it tells of nothing new."""
    with pytest.raises(NotAllowedNow, match="setup-log"):
        check_log(admin, settings, "a")
    made = set_up_log(admin, settings, ["a", "b"])
    assert [line.split()[0] for line in made] == [
        "tenant",
        "namespace",
        "topic",
        "subscription",
        "topic",
        "subscription",
    ]
    assert set_up_log(admin, settings, ["a", "b"]) == []
    for pool in ("a", "b"):
        check_log(admin, settings, pool)
    assert set_up_events(admin, settings, ["a"]) == [
        f"namespace {settings.tenant}/events",
        f"namespace {settings.tenant}/events-audit",
        f"topic persistent://{settings.tenant}/events/job-events-a",
        f"topic persistent://{settings.tenant}/events-audit/records",
    ]
    assert set_up_events(admin, settings, ["a"]) == []


@pytest.mark.parametrize(
    ("policy", "value", "named"),
    [
        ("deduplication", False, "deduplication"),
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}, "retention"),
        ("messageTTL", 3600, "messageTTL"),
        (
            "inactiveTopicPolicies",
            {
                "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                "maxInactiveDurationSeconds": 60,
                "deleteWhileInactive": True,
            },
            "inactiveTopicPolicies",
        ),
        ("subscriptionExpirationTime", 10, "subscriptionExpirationTime"),
        (
            "backlogQuota?backlogQuotaType=destination_storage",
            {"limitSize": 1000, "limitTime": -1, "policy": "consumer_backlog_eviction"},
            "backlogQuota destination_storage",
        ),
    ],
    ids=["no-deduplication", "no-retention", "ttl", "idle-deletion", "cursor-expiry", "backlog-eviction"],
)
def test_a_setting_that_would_lose_records_is_named_and_repaired(
    admin: AdminApi, settings: PulsarSettings, *, policy: str, value: object, named: str
) -> None:
    """The message says the setting and the remedy, and the remedy works."""
    set_up_log(admin, settings, ["a"])
    admin.call("POST", f"namespaces/{settings.tenant}/{settings.namespace}/{policy}", value)
    with pytest.raises(NotAllowedNow, match="setup-log") as caught:
        check_log(admin, settings, "a")
    assert [fault.field for fault in caught.value.violations] in ([named], [f"{named}.deleteWhileInactive"])
    set_up_log(admin, settings, ["a"])
    check_log(admin, settings, "a")


def test_a_policy_of_the_topic_counts_before_that_of_the_namespace(admin: AdminApi, settings: PulsarSettings) -> None:
    """The effective value is what is checked."""
    set_up_log(admin, settings, ["a"])
    path = settings.log_topic("a").replace("://", "/")
    admin.call("POST", f"{path}/deduplicationEnabled", body=False)
    with pytest.raises(NotAllowedNow, match="deduplication is off"):
        check_log(admin, settings, "a")


def test_a_missing_cursor_a_small_message_size_and_partitions_are_refused(
    admin: AdminApi, settings: PulsarSettings
) -> None:
    """Each of them would lose records, or refuse them, or give them two orders."""
    set_up_log(admin, settings, ["a"])
    generous = PulsarSettings(tenant=settings.tenant, admin_url=settings.admin_url, max_message_bytes=50_000_000)
    with pytest.raises(NotAllowedNow, match="maxMessageSize is 5242880"):
        check_log(admin, generous, "a")
    path = settings.log_topic("a").replace("://", "/")
    admin.call("DELETE", f"{path}/subscription/{SUBSCRIPTION}")
    with pytest.raises(NotAllowedNow, match=f"subscription {SUBSCRIPTION} is missing"):
        check_log(admin, settings, "a")
    admin.call("PUT", f"{settings.log_topic('wide').replace('://', '/')}/partitions", 2)
    with pytest.raises(NotAllowedNow, match="partitions"):
        set_up_log(admin, settings, ["wide"])


async def test_a_leader_does_not_stand_on_a_log_that_was_not_set_up(
    pulsar_broker: Any, settings: PulsarSettings, admin: AdminApi
) -> None:
    """The message says what to run; once that was done, it stands."""
    config = ServerConfig(
        database_url="postgresql://127.0.0.1:1/none", event_log_url=pulsar_broker.service_url, pulsar=settings
    )
    with pytest.raises(NotAllowedNow, match="setup-log"):
        await await_safe_log(config)
    set_up_log(admin, settings, [config.pool])
    await await_safe_log(config)


def test_no_retention_at_all_is_refused(admin: AdminApi, settings: PulsarSettings) -> None:
    """Before anything is made."""
    with pytest.raises(InvalidRequest, match="retention"):
        set_up_log(admin, settings, ["a"], retention_minutes=0)


def test_an_admin_api_that_is_not_there_is_unavailable() -> None:
    """The call may be repeated."""
    admin = AdminApi("pulsar://127.0.0.1:1", PulsarSettings(admin_url="http://127.0.0.1:1"))
    with pytest.raises(BackendUnavailable, match="does not answer"):
        admin.call("GET", "clusters")

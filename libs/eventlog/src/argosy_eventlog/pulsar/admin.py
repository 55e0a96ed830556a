"""Pulsar's admin API: making the topics of an installation, and checking that a broker would keep what it is given.

Everything that a log needs is set on its namespace, so it holds whatever the broker's own defaults are. The check asks
for the effective values, which a policy of the topic or the lack of one of the namespace may have changed.

Source: design section 5, "Ingest"; Pulsar's defaults delete idle topics after a minute, and messages that every
subscription has passed at once.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final

from argosy_core.errors import (
    AlreadyExists,
    ArgosyError,
    BackendUnavailable,
    FieldViolation,
    InvalidRequest,
    NotAllowedNow,
    NotAuthenticated,
    NotFound,
    NotPermitted,
)
from argosy_eventlog.pulsar.settings import SUBSCRIPTION, PulsarSettings, admin_url_of

__all__ = ["AdminApi", "check_log", "set_up_events", "set_up_log"]

_FOREVER: Final = -1
_KEEP_TOPIC: Final = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 86_400,
    "deleteWhileInactive": False,
}
_EVENTS_RETENTION: Final = {"retentionTimeInMinutes": 1440, "retentionSizeInMB": 1024}
_YOUNG_BROKER_S: Final = 30.0
_RETRY_PAUSE_S: Final = 0.5
_MESSAGE_PREFIX: Final = "Message:"
_LONGEST_REASON: Final = 300
_KINDS: Final[Mapping[int, type[ArgosyError]]] = {
    HTTPStatus.UNAUTHORIZED: NotAuthenticated,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.METHOD_NOT_ALLOWED: NotAllowedNow,
    HTTPStatus.CONFLICT: AlreadyExists,
    HTTPStatus.PRECONDITION_FAILED: NotAllowedNow,
    HTTPStatus.BAD_REQUEST: InvalidRequest,
}
_NO_RIGHT: Final = "Unauthorized to "
"""How a broker begins to say that it knows a role and does not let it; the status is the one for unknown tokens."""
_REMEDY: Final = "run `argosy admin setup-log`"


class AdminApi:
    """Calls to a broker's admin API.

    Args:
        url: Service URL of the brokers, from which the admin API's is taken unless the settings name it.
        settings: How it is reached.
    """

    def __init__(self, url: str, settings: PulsarSettings) -> None:
        """Call nobody yet.

        Raises:
            InvalidRequest: The URL names no broker, the admin URL is none, or the file of authorities cannot be read.
        """
        self.base = admin_url_of(url, settings)
        """Address of the API."""
        if not self.base.startswith(("http://", "https://")):
            raise InvalidRequest(f"pulsar.admin_url is {settings.admin_url!r}; write http://host:8080")
        settings.check_trust_file()
        self._settings = settings
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]  # brokers stand beside us
        if self.base.startswith("https"):
            context = ssl.create_default_context(cafile=settings.tls_trust_file or None)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON
        """Return what a call answers, None if nothing.

        Args:
            method: HTTP method.
            path: Path below /admin/v2/.
            body: JSON value to send.

        Raises:
            ArgosyError: What the broker says: NotFound, AlreadyExists, NotAuthenticated, NotPermitted, NotAllowedNow,
                InvalidRequest.
            BackendUnavailable: It cannot be reached.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token := self._settings.read_token():
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            f"{self.base}/admin/v2/{path}",
            method=method,
            headers=headers,
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with self._opener.open(request, timeout=self._settings.operation_timeout_s) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise self._error(error.code, f"{method} {path}", _reason(error)) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise NotAuthenticated(self._unknown(error.reason)) from error
            raise BackendUnavailable(f"Pulsar's admin API at {self.base} does not answer: {error.reason}") from error
        except (OSError, HTTPException) as error:
            raise BackendUnavailable(f"Pulsar's admin API at {self.base} does not answer: {error}") from error
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise BackendUnavailable(f"Pulsar's admin API at {self.base} answers no JSON to {path}") from error

    def _error(self, status: int, call: str, reason: str) -> ArgosyError:
        """Return the error that a status stands for."""
        text = f"Pulsar answers {status} to {call}: {reason}"
        shown = self._settings.credentials
        if status == HTTPStatus.FORBIDDEN or (status == HTTPStatus.UNAUTHORIZED and reason.startswith(_NO_RIGHT)):
            return NotPermitted(f"{text}; it was shown {shown}, whose role has no right to it")
        if status == HTTPStatus.UNAUTHORIZED:
            text += f"; it was shown {shown}"
        return _KINDS.get(status, BackendUnavailable)(text)

    def _unknown(self, error: ssl.SSLCertVerificationError) -> str:
        trusted = self._settings.tls_trust_file or "the system's authorities"
        return (
            f"Pulsar's admin API at {self.base} has a certificate that is not vouched for by {trusted}"
            f" ({error.verify_message}); name the right ones by pulsar.tls_trust_file"
        )

    def make(self, method: str, path: str, body: object = None) -> bool:
        """Make something; return False if it exists already.

        A broker that has just started answers before its storage does, so what is refused for the moment is asked again
        for half a minute. What is there once an answer was lost counts as made: the lost call made it.

        Raises:
            ArgosyError: As `call`.
        """
        end_s = time.monotonic() + _YOUNG_BROKER_S
        is_asked_again = False
        while True:
            try:
                self.call(method, path, body)
            except AlreadyExists:
                return is_asked_again
            except BackendUnavailable:
                if time.monotonic() >= end_s:
                    raise
                is_asked_again = True
                time.sleep(_RETRY_PAUSE_S)
            else:
                return True


def _reason(error: urllib.error.HTTPError) -> str:
    """Return what the broker says, without the stack it may add."""
    try:
        text = str(json.loads(error.read())["reason"])
    except (ValueError, KeyError, TypeError, OSError):
        text = str(error.reason)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [str(error.reason)]
    told = [line.removeprefix(_MESSAGE_PREFIX).strip() for line in lines if line.startswith(_MESSAGE_PREFIX)]
    return (told or lines)[0][:_LONGEST_REASON]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """One setting of a namespace."""

    path: str
    value: object


def _log_policies(retention_minutes: int, retention_mebibytes: int) -> tuple[_Policy, ...]:
    return (
        _Policy(path="deduplication", value=True),
        _Policy(
            path="retention",
            value={"retentionTimeInMinutes": retention_minutes, "retentionSizeInMB": retention_mebibytes},
        ),
        _Policy(path="messageTTL", value=0),
        _Policy(path="subscriptionExpirationTime", value=0),
        _Policy(path="inactiveTopicPolicies", value=_KEEP_TOPIC),
        _Policy(path="autoTopicCreation", value={"allowAutoTopicCreation": False}),
        _Policy(
            path="backlogQuota?backlogQuotaType=destination_storage",
            value={"limitSize": _FOREVER, "limitTime": _FOREVER, "policy": "producer_exception"},
        ),
    )


def set_up_log(
    admin: AdminApi,
    settings: PulsarSettings,
    pools: list[str],
    *,
    retention_minutes: int = 60,
    retention_mebibytes: int = 1024,
) -> list[str]:
    """Make tenant, namespace, policies, topics and subscriptions of pools' logs; repeating it changes nothing.

    Args:
        admin: The admin API.
        settings: Names.
        pools: Pools that get a topic.
        retention_minutes: How long applied records stay, to be looked at; -1 for ever.
        retention_mebibytes: How much of them; -1 for any amount. What has not been applied always stays.

    Returns:
        What was made, one line each; nothing if all was there.

    Raises:
        InvalidRequest: Applied records would not stay at all, or a pool cannot name a topic.
        NotAllowedNow: A topic is there, but partitioned.
        BackendUnavailable: The broker cannot be reached; NotPermitted, NotAuthenticated: it refuses.
    """
    if retention_minutes == 0 or retention_mebibytes == 0 or retention_minutes < _FOREVER:
        raise InvalidRequest("retention must be above 0 minutes and MiB, or -1: a repeated publish is looked up there")
    topics = [settings.log_topic(pool) for pool in pools]
    made = _make_namespace(admin, settings.tenant, settings.namespace)
    namespace = f"{settings.tenant}/{settings.namespace}"
    for policy in _log_policies(retention_minutes, retention_mebibytes):
        admin.call("POST", f"namespaces/{namespace}/{policy.path}", policy.value)
    for topic in topics:
        path = topic.replace("://", "/")
        made += _make_topic(admin, topic)
        if admin.make("PUT", f"{path}/subscription/{SUBSCRIPTION}", "earliest"):
            made.append(f"subscription {SUBSCRIPTION} on {topic}")
    return made


def set_up_events(admin: AdminApi, settings: PulsarSettings, pools: list[str]) -> list[str]:
    """Make the namespaces and topics of job events and of the audit.

    A new namespace keeps what every subscription has read for a day, or 1 GiB of it; from then on its policies are the
    operator's, except that topics stay.

    Returns:
        What was made, one line each.
    """
    made = []
    for name in (settings.events_namespace, settings.audit_namespace):
        made += _make_namespace(admin, settings.tenant, name)
        namespace = f"{settings.tenant}/{name}"
        if f"namespace {namespace}" in made:
            admin.call("POST", f"namespaces/{namespace}/retention", _EVENTS_RETENTION)
        admin.call("POST", f"namespaces/{namespace}/inactiveTopicPolicies", _KEEP_TOPIC)
    for topic in (*map(settings.events_topic, pools), settings.audit_topic):
        made += _make_topic(admin, topic)
    return made


def _make_namespace(admin: AdminApi, tenant: str, namespace: str) -> list[str]:
    made = []
    try:
        admin.call("GET", f"tenants/{tenant}")
    except NotFound:
        clusters = admin.call("GET", "clusters")
        if admin.make("PUT", f"tenants/{tenant}", {"allowedClusters": clusters, "adminRoles": []}):
            made.append(f"tenant {tenant}")
    except NotPermitted:
        pass  # a tenant's administrator may make namespaces without seeing tenants
    if admin.make("PUT", f"namespaces/{tenant}/{namespace}", {}):
        made.append(f"namespace {tenant}/{namespace}")
    return made


def _make_topic(admin: AdminApi, topic: str) -> list[str]:
    path = topic.replace("://", "/")
    _refuse_partitions(admin, topic)
    return [f"topic {topic}"] if admin.make("PUT", path) else []


def _refuse_partitions(admin: AdminApi, topic: str) -> None:
    """Raise if a topic has partitions.

    Raises:
        NotAllowedNow: It has.
    """
    try:
        found = admin.call("GET", f"{topic.replace('://', '/')}/partitions")
    except NotFound:
        return
    count = found.get("partitions", 0) if isinstance(found, Mapping) else 0
    if count:
        raise NotAllowedNow(
            f"topic {topic} has {count} partitions, a pool's log has one order: delete it and {_REMEDY}"
        )


def check_log(admin: AdminApi, settings: PulsarSettings, pool: str) -> None:
    """Raise unless the broker would keep a pool's log, each record once.

    Raises:
        NotAllowedNow: It would not; every wrong setting is named, with what it is and what it must be.
        BackendUnavailable: The broker cannot be reached.
        NotPermitted, NotAuthenticated: It does not let us look.
    """
    topic = settings.log_topic(pool)
    path = topic.replace("://", "/")
    try:
        subscriptions = admin.call("GET", f"{path}/subscriptions")
    except NotFound as error:
        raise NotAllowedNow(f"topic {topic} is missing: {_REMEDY}") from error
    _refuse_partitions(admin, topic)
    faults: list[FieldViolation] = []
    if SUBSCRIPTION not in (subscriptions or ()):
        faults.append(_fault(f"subscription {SUBSCRIPTION}", "missing", "records may be deleted unapplied"))
    namespace = f"namespaces/{settings.tenant}/{settings.namespace}"
    faults += _wrong_deletions(admin, namespace, path)
    if _effective(admin, namespace, path, "deduplicationEnabled") is not True:
        faults.append(_fault("deduplication", "off", "a repeated publish would make a second record"))
    quotas = _effective(admin, namespace, path, "backlogQuotaMap") or {}
    for kind, quota in quotas.items():
        if quota.get("policy") == "consumer_backlog_eviction":
            faults.append(
                _fault(f"backlogQuota {kind}", "consumer_backlog_eviction", "records would be dropped unapplied")
            )
    size = _effective(admin, namespace, path, "maxMessageSize") or _broker_value(admin, "maxMessageSize")
    if size is not None and int(size) < settings.max_message_bytes:
        text = f"records may have {settings.max_message_bytes} bytes; raise it or lower pulsar.max_message_bytes"
        faults.append(FieldViolation(field="maxMessageSize", description=f"is {size}: {text}"))
    if faults:
        text = "; ".join(f"{fault.field} {fault.description}" for fault in faults)
        raise NotAllowedNow(f"the log at {topic} would not be safe: {text}", violations=tuple(faults))


def _wrong_deletions(admin: AdminApi, namespace: str, path: str) -> list[FieldViolation]:
    """Return the settings by which the broker would delete records, or the topic, too early."""
    faults = []
    retention = _effective(admin, namespace, path, "retention") or {}
    minutes, mebibytes = retention.get("retentionTimeInMinutes", 0), retention.get("retentionSizeInMB", 0)
    if not minutes or not mebibytes:
        faults.append(_fault("retention", f"{minutes} min, {mebibytes} MiB", "applied records would not stay"))
    seconds = _effective(admin, namespace, path, "messageTTL")
    if seconds:
        faults.append(_fault("messageTTL", f"{seconds} s", "records would be dropped unapplied"))
    idle = _effective(admin, namespace, path, "inactiveTopicPolicies") or {}
    if idle.get("deleteWhileInactive", True):
        faults.append(_fault("inactiveTopicPolicies.deleteWhileInactive", "on", "an idle topic would be deleted"))
    expiry = _namespace_value(admin, namespace, "subscriptionExpirationTime")
    if expiry is None:
        expiry = _broker_value(admin, "subscriptionExpirationTimeMinutes")
    if expiry and int(expiry) > 0:
        faults.append(_fault("subscriptionExpirationTime", f"{expiry} min", "the cursor of the log would be deleted"))
    return faults


def _fault(setting: str, value: str, consequence: str) -> FieldViolation:
    return FieldViolation(field=setting, description=f"is {value}: {consequence}; {_REMEDY}")


def _effective(admin: AdminApi, namespace: str, topic_path: str, policy: str) -> Any:  # noqa: ANN401 - any JSON
    """Return a policy's value as it applies to a topic; where topics have no policies, that of the namespace."""
    try:
        return admin.call("GET", f"{topic_path}/{policy}?applied=true")
    except NotAllowedNow:
        return _namespace_value(admin, namespace, policy.removesuffix("Enabled"))


def _namespace_value(admin: AdminApi, namespace: str, policy: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return admin.call("GET", f"{namespace}/{policy}")
    except NotFound:
        return None


def _broker_value(admin: AdminApi, name: str) -> str | None:
    """Return a value of the broker's own configuration, None where it may not be seen."""
    try:
        found = admin.call("GET", "brokers/configuration/runtime")
    except (NotPermitted, NotAuthenticated, NotFound):
        return None
    return found.get(name) if isinstance(found, Mapping) else None

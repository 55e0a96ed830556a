"""A broker that demands TLS and tokens: everything that speaks to it does by its settings, and says what is wrong.

No message and no log ever repeats a token.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pulsar
import pytest
from testbed.pulsar_security import Security

from argosy.api.v1 import event_pb2
from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, NotPermitted
from argosy_eventlog.pulsar import PulsarSettings
from argosy_eventlog.pulsar.admin import AdminApi, check_log, set_up_events, set_up_log
from argosy_eventlog.pulsar.log import PulsarLog
from argosy_eventlog.pulsar.sender import KeyedMessage, PulsarSender
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_testkit.memory_log import MemoryRegister
from testbed.pulsar import Broker

POOL = "default"
JOB_COUNT = 10
POD = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"main",'
    '"annotations":{"argosy.dev/simulated-run-time":"0.1s"}},"spec":{"containers":[{"name":"main","image":"busybox",'
    '"resources":{"requests":{"cpu":"1","memory":"64Mi"}}}]}}'
)


class SecuredWorld:
    """A broker with a pool's log, and what may be told to it."""

    def __init__(self, broker: Broker, security: Security, directory: Path) -> None:
        """Make the topics."""
        self.broker = broker
        self.security = security
        self.directory = directory
        self.settings = PulsarSettings(
            admin_url=broker.admin_url,
            tls_trust_file=str(security.authority),
            token_file=str(security.token),
            publish_timeout_s=2.0,
            operation_timeout_s=2.0,
        )
        admin = AdminApi(broker.service_url, self.settings)
        set_up_log(admin, self.settings, [POOL])
        set_up_events(admin, self.settings, [POOL])

    def token_file(self, name: str) -> Path:
        """Return a token's file by what is wrong with it."""
        path = self.directory / f"{name}.jwt"
        right = self.security.token.read_text(encoding="ascii")
        head, _, signature = right.rpartition(".")
        texts = {
            "forged": f"{head}.{signature[::-1]}",
            "stranger": self.security.sign("stranger"),
            "garbage": "s3cret-that-is-no-token",
            "empty": "",
        }
        if name in texts:
            path.write_text(texts[name], encoding="ascii")
        return self.security.token if name == "right" else path

    @property
    def environment(self) -> dict[str, str]:
        """The variables that servers and the command read."""
        return {
            "ARGOSY_SERVER_EVENT_LOG_URL": self.broker.service_url,
            "ARGOSY_SERVER_PULSAR_ADMIN_URL": self.broker.admin_url,
            "ARGOSY_SERVER_PULSAR_TLS_TRUST_FILE": str(self.security.authority),
            "ARGOSY_SERVER_PULSAR_TOKEN_FILE": str(self.security.token),
        }

    def tells_a_token(self, text: str) -> bool:
        """Return whether a text repeats any token, or the part of it that counts."""
        files = [self.security.token, *self.directory.glob("*.jwt")]
        tokens = [path.read_text(encoding="ascii") for path in files]
        return any(token.rpartition(".")[2] in text for token in tokens if token)


@pytest.fixture(scope="module")
def secured(real_directory: Path, note_part: Callable[[str, str], None]) -> Iterator[SecuredWorld]:
    """Give a broker that lets nobody in without a token."""
    directory = real_directory / "pulsar-secured"
    security = Security.make(directory / "keys")
    broker = Broker(directory / "broker", security=security)
    try:
        broker.start()
        note_part("Pulsar broker with TLS and tokens", broker.version)
        yield SecuredWorld(broker, security, directory)
    finally:
        broker.remove()


@pytest.fixture(scope="module")
def mesh(secured: SecuredWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Give a mesh whose log and relay are on that broker, as `argosy up` makes it: settings come from variables."""
    mesh = Mesh(tmp_path_factory.mktemp("mesh") / "mesh")
    url = secured.broker.service_url
    plan = MeshPlan(
        clusters=(ClusterPlan(name="c1", kinds="5:cpu=4,memory=16Gi"),),
        event_log_url=url,
        event_log_admin_url=secured.broker.admin_url,
        events_url=url,
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in secured.environment.items():
            patch.setenv(name, value)
        try:
            mesh.up(plan)
            yield mesh
        finally:
            mesh.down()


async def test_log_and_relay_of_a_mesh_work_with_tls_and_a_token(secured: SecuredWorld, mesh: Mesh) -> None:
    """Jobs go through the log, their events reach the topic that `argosy up` names, and no log tells the token."""
    async with ArgosyClient(mesh.server) as client:
        await client.create_queue(Queue(name="team"))
        await client.submit([JobDraft(queue="team", job_set="all", manifests=(POD,)) for _ in range(JOB_COUNT)])
        async for _ in client.watch("team", "all", until_finished=True):
            pass
    numbers = _relayed_numbers(secured, mesh.events_topic)
    assert numbers == list(range(1, len(numbers) + 1))
    log = AdminApi(secured.broker.service_url, secured.settings)
    assert any(name.startswith("argosy/mesh-") for name in log.call("GET", "namespaces/argosy"))
    texts = [mesh.log_path(role).read_text(encoding="utf-8") for role in ("api", "leader", "relay")]
    assert not any(secured.tells_a_token(text) for text in texts)


def _relayed_numbers(secured: SecuredWorld, topic: str) -> list[int]:
    """Return the numbers of all events up to the end of the last job."""
    client = pulsar.Client(
        secured.broker.service_url,
        authentication=pulsar.AuthenticationToken(secured.security.token.read_text(encoding="ascii")),
        tls_trust_certs_file_path=str(secured.security.authority),
        tls_validate_hostname=True,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        events: list[event_pb2.JobEvent] = []
        while sum(event.kind == event_pb2.JOB_EVENT_KIND_SUCCEEDED for event in events) < JOB_COUNT:
            message = reader.read_next(timeout_millis=30_000)
            events.extend(event_pb2.WatchJobSetResponse.FromString(message.data()).events)
        reader.close()
    finally:
        client.close()
    return [event.number for event in events]


def test_a_leader_that_is_not_let_in_ends_and_says_why(secured: SecuredWorld, mesh: Mesh) -> None:
    """It looks at the broker before it stands, so whoever started it sees at once what is wrong."""
    done = subprocess.run(
        [sys.executable, "-m", "argosy_server", "--role", "leader", "--grpc-listen", "127.0.0.1:0"],
        env={
            **os.environ,
            **secured.environment,
            "ARGOSY_SERVER_DATABASE_URL": mesh.database_url,
            "ARGOSY_SERVER_PULSAR_TOKEN_FILE": str(secured.token_file("forged")),
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"the token in pulsar.token_file {secured.token_file('forged')}" in text
    assert "Traceback" not in text
    assert not secured.tells_a_token(text)


@pytest.mark.parametrize("command", ["setup-log", "check-log"])
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({}, "the log is safe"),
        ({"TOKEN_FILE": "forged"}, "401"),
        ({"TOKEN_FILE": "garbage"}, "it was shown the token in pulsar.token_file"),
        ({"TOKEN_FILE": None}, "none is set: name one by pulsar.token_file"),
        ({"TOKEN_FILE": "absent"}, "cannot be read: No such file"),
        ({"TOKEN_FILE": "empty"}, "is empty; write the token into it"),
        ({"TOKEN_FILE": "stranger"}, "whose role has no right to it"),
        ({"TLS_TRUST_FILE": None}, "name the right ones by pulsar.tls_trust_file"),
        ({"TLS_TRUST_FILE": "absent"}, "cannot be read as PEM certificates: No such file"),
    ],
    ids=["right", "forged", "garbage", "no-token", "absent", "empty", "stranger", "no-authority", "absent-authority"],
)
def test_the_command_says_what_the_broker_has_against_it(
    secured: SecuredWorld, command: str, changed: dict[str, str | None], named: str
) -> None:
    """What, where, what to do; and no token."""
    variables = {**os.environ, **secured.environment}
    for name, value in changed.items():
        variables.pop(f"ARGOSY_SERVER_PULSAR_{name}")
        if value is not None:
            variables[f"ARGOSY_SERVER_PULSAR_{name}"] = str(secured.token_file(value))
    done = subprocess.run(
        [sys.executable, "-m", "argosy_cli", "admin", command],
        env=variables,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    text = done.stdout + done.stderr
    assert (done.returncode == 0) == (not changed)
    assert named in text
    assert "Traceback" not in text
    assert not secured.tells_a_token(text)


@pytest.mark.parametrize(
    ("name", "error", "named"),
    [
        ("forged", BackendUnavailable, "does it accept the token in pulsar.token_file"),
        ("", BackendUnavailable, "does it accept no token, for none is set: name one by pulsar.token_file"),
        ("absent", InvalidRequest, "pulsar.token_file .* cannot be read: No such file"),
        ("stranger", NotPermitted, "may not produce and consume there"),
    ],
    ids=["forged", "no-token", "absent", "stranger"],
)
def test_publishers_say_what_the_broker_has_against_them(
    secured: SecuredWorld, name: str, error: type[ArgosyError], named: str
) -> None:
    """The leader's log and the relay's sender say where to look, without the token.

    Pulsar's client does not tell a refused token from a broker that is away; the check before a leader stands does.
    """
    settings = replace(secured.settings, token_file=str(secured.token_file(name)) if name else "")
    log = PulsarLog(secured.broker.service_url, POOL, MemoryRegister(epoch=1), settings)
    sender = PulsarSender(secured.broker.service_url, settings.events_topic(POOL), settings)
    calls = [
        lambda: log.append(1, 1, b"x"),
        lambda: log.read(0, 1),
        lambda: log.trim(2),
        lambda: sender.send([KeyedMessage(key="a", payload=b"x")]),
    ]
    try:
        for call in calls:
            with pytest.raises(error, match=named) as caught:
                call()
            assert not secured.tells_a_token(str(caught.value))
    finally:
        log.close()
        sender.close()


def test_an_unknown_authority_is_told_as_what_it_may_be(secured: SecuredWorld) -> None:
    """The client cannot tell a refused certificate from a broker that is away: the message names both."""
    settings = replace(secured.settings, tls_trust_file="")
    log = PulsarLog(secured.broker.service_url, POOL, MemoryRegister(epoch=1), settings)
    try:
        with pytest.raises(BackendUnavailable, match=r"vouched for by .* pulsar\.tls_trust_file is empty"):
            log.append(1, 1, b"x")
    finally:
        log.close()


def test_the_administrator_of_a_tenant_sets_up_checks_and_leads_there(secured: SecuredWorld) -> None:
    """No more rights are needed than those over the tenant of the topics, once an operator has made it."""
    operator = AdminApi(secured.broker.service_url, secured.settings)
    operator.call(
        "PUT", "tenants/ours", {"allowedClusters": operator.call("GET", "clusters"), "adminRoles": ["keeper"]}
    )
    settings = replace(secured.settings, tenant="ours", token_file="", token=secured.security.sign("keeper"))
    keeper = AdminApi(secured.broker.service_url, settings)
    set_up_log(keeper, settings, [POOL])
    set_up_events(keeper, settings, [POOL])
    check_log(keeper, settings, POOL)
    log = PulsarLog(secured.broker.service_url, POOL, MemoryRegister(epoch=1), settings)
    sender = PulsarSender(secured.broker.service_url, settings.events_topic(POOL), settings)
    try:
        position = log.append(1, 1, b"x")
        log.trim(position + 1)
        assert [record.position for record in log.read(0, 10)] == [position]
        sender.send([KeyedMessage(key="a", payload=b"x")])
    finally:
        log.close()
        sender.close()


def test_a_token_may_be_replaced_while_a_leader_runs(secured: SecuredWorld) -> None:
    """The file is read at every connection: what was refused with the old token goes on with the new one."""
    path = secured.directory / "rotated.jwt"
    path.write_text(secured.token_file("forged").read_text(encoding="ascii"), encoding="ascii")
    right = replace(secured.settings, namespace="rotation")
    set_up_log(AdminApi(secured.broker.service_url, right), right, [POOL])
    settings = replace(right, token_file=str(path))
    log = PulsarLog(secured.broker.service_url, POOL, MemoryRegister(epoch=1), settings)
    try:
        with pytest.raises(BackendUnavailable, match="does it accept the token in"):
            log.append(1, 1, b"x")
        path.write_text(secured.security.token.read_text(encoding="ascii"), encoding="ascii")
        position = _until_let_in(lambda: log.append(1, 1, b"x"))
        assert [record.position for record in log.read(0, 10)] == [position]
    finally:
        log.close()


def _until_let_in(call: Callable[[], int]) -> int:
    deadline_s = time.monotonic() + 20
    while True:
        try:
            return call()
        except BackendUnavailable:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)

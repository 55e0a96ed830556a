"""Real parts for every test below this folder: session-wide, started by the first test that asks, ended in any case.

A part that cannot be started fails the tests that ask for it. The parts that were used are listed at the end.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlaneOptions
from xdist.scheduler import LoadScopeScheduling

from testbed import postgres, reaper
from testbed.pulsar import Broker

if TYPE_CHECKING:
    from argosy_store import EmbeddedPostgres

TEST_TIMEOUT_S = 300
"""Longest time of one test that states none, the start of parts included."""
SHARED_PARTS = {
    "kube_api": (
        "real/deploy/test_cert_manager",
        "real/deploy/test_manifests",
        "real/deploy/test_network",
        "real/executor/",
        "real/kube/test_service_accounts",
        "real/testbed/test_kube",
    ),
    "pulsar_broker": (
        "real/eventlog/test_admin_commands",
        "real/eventlog/test_contract",
        "real/eventlog/test_mesh_on_pulsar",
        "real/eventlog/test_pulsar_log",
        "real/eventlog/test_relay",
        "real/eventlog/test_settings_check",
        "real/eventlog/test_trace_context",
        "real/testbed/test_pulsar",
    ),
}
"""Parts that are started once, and the modules that share each: one process runs these, one after the other."""
FIRST = (
    "real/eventlog/test_long_outage",
    "real/local/test_fair_mesh",
    *SHARED_PARTS["kube_api"],
    "real/store/test_fail_over",
    "real/local/test_pages",
    "real/local/test_replay",
    *SHARED_PARTS["pulsar_broker"],
)
"""What begins: five minutes that take hardly any CPU, beside them modules that look at the clock, and the longest."""
LEFT_SOCKET = (
    "ignore:Exception ignored in. <(socket.socket|function _SelectorTransport):pytest.PytestUnraisableExceptionWarning"
)
"""A TLS handshake that is cancelled leaves its socket to the garbage collector, which tells whichever test runs then.
Kubelets and watches are stopped at any moment here; everywhere else such a warning is an error."""
NODE_GRACE_S = 20.0
HEARTBEAT_S = 5.0

parts_key = pytest.StashKey[dict[str, str]]()
"""Real parts that this run used, with their versions."""
ends_key = pytest.StashKey[dict[str, Callable[[], None]]]()
"""What ends each shared part that runs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test the time that real parts take, and let none fail for a socket that another left.

    Raises:
        UsageError: A module asks for a shared part and is not listed with those that share it.
    """
    here = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))
        item.add_marker(pytest.mark.filterwarnings(LEFT_SOCKET))
        for part in SHARED_PARTS.keys() & getattr(item, "fixturenames", ()):
            if shared_part(item.nodeid) != part:
                raise pytest.UsageError(f"{item.nodeid} asks for {part}: list its module in SHARED_PARTS")
    items.sort(key=lambda item: next((n for n, name in enumerate(FIRST) if name in item.nodeid), len(FIRST)))


def shared_part(nodeid: str) -> str | None:
    """Return the shared part that a test's module is listed with, if any."""
    return next((part for part, names in SHARED_PARTS.items() if any(name in nodeid for name in names)), None)


class ModulesInOrder(LoadScopeScheduling):
    """Gives each process module after module, and all that share a part to the same one.

    It takes the place of xdist's groups, which have no effect on the node ids of pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return shared_part(nodeid) or nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Schedule the processes of `make test-real`, in the order of the tests."""
    config.option.loadscopereorder = False
    return ModulesInOrder(config, log)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End a shared part after the last test that shares it: one that idles takes CPU from all that come later."""
    part = shared_part(item.nodeid)
    if part is not None and (nextitem is None or shared_part(nextitem.nodeid) != part):
        item.config.stash.get(ends_key, {}).pop(part, lambda: None)()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one which parts were used here."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["parts"] = session.config.stash.get(parts_key, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the parts that another process used."""
    used = getattr(node, "workeroutput", {}).get("parts", {})
    node.config.stash.setdefault(parts_key, {}).update(used)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the real parts that were used."""
    parts = terminalreporter.config.stash.get(parts_key, {})
    terminalreporter.section("real parts")
    for name, version in sorted(parts.items()) or [("none", "no test asked for one")]:
        terminalreporter.write_line(f"{name}: {version}")


def _tell(line: str) -> None:
    sys.stderr.write(f"testbed: {line}\n")


@pytest.fixture(scope="session")
def real_directory() -> Iterator[Path]:
    """Directory of the real parts' data and logs, removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="argosy-real-"))
    path.chmod(0o711)  # Postgres runs as another account if we are root
    reaper.watch("folder", path)
    try:
        yield path
    finally:
        reaper.release("folder", path)
        reaper.dismiss()
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def note_part(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """Notes a real part and its version for the list at the end."""
    parts = pytestconfig.stash.setdefault(parts_key, {})
    return parts.__setitem__


@pytest.fixture(scope="session")
def kube_api_factory(real_directory: Path, note_part: Callable[[str, str], None]) -> Iterator[Callable[..., KubeApi]]:
    """Starts further clusters: `kube_api_factory(options=ControlPlaneOptions(...), heartbeat_s=...)`.

    They are ended at the end of the session; a test may `stop()` its own before.
    """
    with ExitStack() as stack:
        numbers = iter(range(1000))

        def start(options: ControlPlaneOptions | None = None, *, heartbeat_s: float = HEARTBEAT_S) -> KubeApi:
            directory = real_directory / f"kubernetes-{next(numbers)}"
            wanted = options or ControlPlaneOptions(node_grace_s=NODE_GRACE_S)
            cluster = KubeApi(directory, wanted, heartbeat_s=heartbeat_s, tell=_tell)
            stack.callback(cluster.stop)
            cluster.start()
            note_part("Kubernetes API server", cluster.version)
            note_part("etcd", cluster.control_plane.etcd_version)
            return cluster

        yield start


@pytest.fixture(scope="session")
def kube_api(kube_api_factory: Callable[..., KubeApi], pytestconfig: pytest.Config) -> KubeApi:
    """The cluster that tests share: control plane with controllers, fake kubelet, no nodes; RBAC is on.

    A test uses namespaces and node names of its own.
    """
    cluster = kube_api_factory()
    pytestconfig.stash.setdefault(ends_key, {})["kube_api"] = cluster.stop
    return cluster


@pytest.fixture(scope="session")
def pulsar_broker(
    real_directory: Path, note_part: Callable[[str, str], None], pytestconfig: pytest.Config
) -> Iterator[Broker]:
    """The Pulsar broker that tests share; a test that stops it starts it again."""
    broker = Broker(real_directory / "pulsar", tell=_tell)
    pytestconfig.stash.setdefault(ends_key, {})["pulsar_broker"] = broker.kill
    try:
        broker.start()
        note_part("Pulsar broker", f"{broker.version} ({'container' if broker.is_container else 'process'})")
        yield broker
    finally:
        broker.remove()


@pytest.fixture(scope="session")
def real_postgres(real_directory: Path) -> Iterator[EmbeddedPostgres]:
    """The embedded Postgres, durable as in production; `kill()` and `start()` are a test's to use."""
    server = postgres.embedded(real_directory / "postgres")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest, note_part: Callable[[str, str], None]) -> str:
    """URL of a Postgres whose user may create databases: what ARGOSY_TEST_POSTGRES_URL names, or the embedded one."""
    stated = os.environ.get(postgres.URL_VARIABLE)
    url = stated or request.getfixturevalue("real_postgres").url
    note_part("Postgres" if stated else "Postgres, embedded", postgres.server_version(url))
    return str(url)


@pytest.fixture(scope="session")
def oldest_postgres(real_directory: Path, note_part: Callable[[str, str], None]) -> Iterator[postgres.Server]:
    """A Postgres of the oldest release that is supported, over TCP with a password; `.url`, `.kill()`, `.start()`."""
    server = postgres.Server(real_directory / "postgres-oldest", tell=_tell)
    try:
        server.start()
        kind = "container" if server.is_container else "process"
        note_part("Postgres, oldest supported", f"{postgres.server_version(server.url)} ({kind})")
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["newest", "oldest"])
def any_postgres_url(request: pytest.FixtureRequest) -> str:
    """URL of each of two Postgres servers, of the newest and of the oldest supported release."""
    if request.param == "oldest":
        return str(request.getfixturevalue("oldest_postgres").url)
    return str(request.getfixturevalue("postgres_url"))

"""The processes of a mesh: their command lines are ones that the services take."""

import json
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from argosy_agent.config import AgentConfig
from argosy_cluster_agent.config import ClusterAgentConfig, part_config
from argosy_core.errors import InvalidRequest, NotAllowedNow, NotFound
from argosy_executor.config import ExecutorConfig
from argosy_kube.simulated.__main__ import _parser
from argosy_local.compose import ClusterPlan, MeshPlan, plan_processes
from argosy_local.mesh import Mesh, passing_mesh
from argosy_local.mesh_log import MeshEvents, MeshLog
from argosy_local.mesh_state import MeshState, ProcessEntry, read_state, write_state
from argosy_local.security import make_secrets
from argosy_runtime.config import load_config
from argosy_sampler.config import SamplerConfig
from argosy_server.config import ServerConfig

PLAN = MeshPlan(
    clusters=(ClusterPlan(name="a", kinds="3:cpu=4,memory=8Gi"), ClusterPlan(name="b", nodes=b"[]")),
    speed=2.5,
    flags={"server": ["--leader-seed", "7"]},
)
DATABASE = {"ARGOSY_SERVER_DATABASE_URL": "postgresql:///argosy"}


def arguments_of(entries: list[ProcessEntry], role: str) -> list[str]:
    """Return what stands behind `python -m module`."""
    (entry,) = (entry for entry in entries if entry.role == role)
    return entry.arguments[3:]


def test_services_take_their_command_lines(tmp_path: Path) -> None:
    """Flags of the composition are flags of the services, and everybody dials the right one."""
    entries = plan_processes(PLAN, tmp_path)
    address = {entry.role: entry.address for entry in entries}

    api = load_config(ServerConfig, arguments_of(entries, "api"), DATABASE)
    leader = load_config(ServerConfig, arguments_of(entries, "leader"), DATABASE)
    sampler = load_config(SamplerConfig, arguments_of(entries, "sampler-a"), DATABASE)
    executor = load_config(ExecutorConfig, arguments_of(entries, "executor-b"), DATABASE)

    assert (api.role, leader.role, leader.leader.seed) == ("api", "leader", 7)
    assert (api.grpc.listen, leader.grpc.listen) == (address["api"], address["leader"])
    assert (sampler.cluster, sampler.cluster_address) == ("a", address["cluster-a"])
    assert (executor.cluster, executor.cluster_address.removeprefix("simulated:")) == ("b", address["cluster-b"])
    assert sampler.server_addresses == executor.server_addresses == (address["leader"],)
    assert len(set(address.values())) == len(entries) == 8


@pytest.mark.parametrize("combined", [False, True])
def test_services_of_a_secured_mesh_ask_who_calls_and_say_who_they_are(tmp_path: Path, combined: bool) -> None:  # noqa: FBT001
    """Whoever is called has a certificate, asks for one or for a token, and tells its health elsewhere."""
    plan = replace(PLAN, secure=True, combined=combined, autoscale=True)
    make_secrets(tmp_path / "secrets", ["a", "b"])
    entries = plan_processes(plan, tmp_path)
    api = load_config(ServerConfig, arguments_of(entries, "api"), DATABASE)
    leader = load_config(ServerConfig, arguments_of(entries, "leader"), DATABASE)
    account: ClusterAgentConfig | SamplerConfig
    if combined:
        account = load_config(ClusterAgentConfig, arguments_of(entries, "combined-a"))
    else:
        account = load_config(SamplerConfig, arguments_of(entries, "sampler-a"))
        executor = load_config(ExecutorConfig, arguments_of(entries, "executor-a"))
        assert executor.credentials == account.credentials
    agent = load_config(AgentConfig, arguments_of(entries, "agent-b"))

    assert api.asks_who_calls
    assert (api.access.admins, api.grpc.client_authority_file) == (("user:admin",), "")
    assert api.api.pod_security_level == "restricted"
    plain = load_config(ServerConfig, arguments_of(plan_processes(PLAN, tmp_path), "api"), DATABASE)
    assert plain.api.pod_security_level == "baseline"
    assert leader.grpc.client_authority_file == account.grpc.client_authority_file == api.credentials.authority_file
    assert Path(account.credentials.certificate_file).name == "cluster-a.pem"
    assert Path(agent.credentials.certificate_file).name == "cluster-b.pem"
    assert {config.grpc.health_listen for config in (api, leader, account)} <= {one.health_address for one in entries}
    places = [place for one in entries for place in (one.address, one.health_address) if place]
    assert len(set(places)) == len(places)


def test_a_mesh_s_log_is_known_to_its_servers_and_to_whoever_takes_it_down(tmp_path: Path) -> None:
    """Every mesh has a namespace of its own, since epochs of a new database begin anew."""
    log = MeshLog(url="pulsar://b:6650", admin_url="http://b:1", namespace="mesh-x")
    plan = replace(PLAN, flags={"server": log.flags})
    leader = load_config(ServerConfig, arguments_of(plan_processes(plan, tmp_path), "leader"), DATABASE)
    assert (leader.event_log_url, leader.pulsar.namespace) == ("pulsar://b:6650", "mesh-x")
    assert leader.pulsar.admin_url == "http://b:1"
    assert MeshLog.of(log.to_builtins()) == log


def test_a_mesh_s_events_are_noted_by_its_leader_and_relayed_by_a_process_of_its_own(tmp_path: Path) -> None:
    """Leader and relay agree on the topic, which is the mesh's own; without brokers for events there is no relay."""
    events = MeshEvents(url="pulsar://b:6650", admin_url="", namespace="mesh-x-events")
    plan = replace(PLAN, events_url=events.url, flags={"server": events.flags})
    entries = plan_processes(plan, tmp_path)
    leader, relay = (load_config(ServerConfig, arguments_of(entries, role), DATABASE) for role in ("leader", "relay"))

    assert (leader.role, relay.role) == ("leader", "relay")
    assert leader.events_url == relay.events_url == events.url
    topics = {config.pulsar.events_topic(config.pool) for config in (leader, relay)}
    assert topics == {events.topic} == {"persistent://argosy/mesh-x-events/job-events-default"}
    assert MeshEvents.of(events.to_builtins()) == events
    assert "relay" not in {entry.role for entry in plan_processes(PLAN, tmp_path)}


def test_a_mesh_reaches_its_broker_as_its_servers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenant, token and authorities come from the variables that servers read."""
    monkeypatch.setenv("ARGOSY_SERVER_PULSAR_TENANT", "t")
    monkeypatch.setenv("ARGOSY_SERVER_PULSAR_TOKEN_FILE", "/token")
    monkeypatch.setenv("ARGOSY_SERVER_PULSAR_TLS_TRUST_FILE", "/ca")
    settings = MeshLog(url="pulsar+ssl://b:6651", admin_url="", namespace="mesh-x")._settings()
    assert (settings.tenant, settings.token_file, settings.tls_trust_file) == ("t", "/token", "/ca")
    assert settings.namespace == "mesh-x"


def test_combined_clusters_have_one_cluster_agent_each(tmp_path: Path) -> None:
    """Sampler and executor are one process with one configuration, from which both parts take theirs."""
    entries = plan_processes(replace(PLAN, combined=True), tmp_path)
    address = {entry.role: entry.address for entry in entries}

    combined = load_config(ClusterAgentConfig, arguments_of(entries, "combined-a"), DATABASE)
    sampler, executor = part_config(combined, SamplerConfig), part_config(combined, ExecutorConfig)

    assert set(address) == {"api", "leader", "cluster-a", "cluster-b", "combined-a", "combined-b"}
    assert combined.grpc.listen == address["combined-a"]
    for part in (sampler, executor):
        assert (part.cluster, part.cluster_address, part.server_addresses) == (
            "a",
            address["cluster-a"],
            (address["leader"],),
        )
        assert part.metrics_listen == "", "the cluster agent opens the only page"
    assert executor.drain_s == combined.drain_s


def test_cluster_that_runs_already_is_dialled_and_not_started(tmp_path: Path) -> None:
    """Its sampler and executor get the address as it is; the mesh has no process for it."""
    place = "kubernetes:/path/to/kubeconfig"
    entries = plan_processes(MeshPlan(clusters=(ClusterPlan(name="k", address=place),)), tmp_path)

    assert {entry.role for entry in entries} == {"api", "leader", "sampler-k", "executor-k"}
    assert load_config(SamplerConfig, arguments_of(entries, "sampler-k"), DATABASE).cluster_address == place
    assert load_config(ExecutorConfig, arguments_of(entries, "executor-k"), DATABASE).cluster_address == place


def test_standbys_are_dialled_after_the_leader(tmp_path: Path) -> None:
    """Each is a process of its own that may lead; samplers and executors know all of them."""
    entries = plan_processes(replace(PLAN, standby_count=1), tmp_path)
    address = {entry.role: entry.address for entry in entries}

    standby = load_config(ServerConfig, arguments_of(entries, "leader-2"), DATABASE)
    sampler = load_config(SamplerConfig, arguments_of(entries, "sampler-a"), DATABASE)

    assert (standby.role, standby.grpc.listen) == ("leader", address["leader-2"])
    assert sampler.server_addresses == (address["leader"], address["leader-2"])


def test_simulated_clusters_take_their_command_lines(tmp_path: Path) -> None:
    """One has nodes all alike, the other a node file; each draws from a seed of its own."""
    entries = plan_processes(PLAN, tmp_path)

    simulated = _parser().parse_args(arguments_of(entries, "cluster-a"))
    listed = _parser().parse_args(arguments_of(entries, "cluster-b"))

    assert (simulated.kinds, simulated.speed, simulated.seed) == ("3:cpu=4,memory=8Gi", 2.5, 0)
    assert (listed.nodes.read_bytes(), listed.seed) == (b"[]", 1)


def test_clusters_start_before_those_who_dial_them(tmp_path: Path) -> None:
    """Samplers and executors come last, so that few of their first calls fail."""
    roles = [entry.role for entry in plan_processes(PLAN, tmp_path)]

    assert roles.index("cluster-b") < roles.index("sampler-a")


def state(processes: list[ProcessEntry]) -> MeshState:
    """Return the state of a mesh."""
    return MeshState(
        server="127.0.0.1:1", database_url="x", embedded=False, cluster_names=["a"], speed=1.0, processes=processes
    )


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Another command finds the mesh."""
    entry = ProcessEntry(
        role="api", arguments=["x"], address="127.0.0.1:1", probe="grpc", log="l", pid=9, start_ticks=8
    )

    write_state(tmp_path, state([entry]))

    assert read_state(tmp_path) == state([entry])
    assert (tmp_path / "mesh.json").stat().st_mode & 0o077 == 0  # it holds the URL of the database
    assert read_state(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", json.dumps({"processes": [{"nope": 1}]})])
def test_damaged_state_is_named(tmp_path: Path, text: str) -> None:
    """A file that cannot be read says which, and what to do."""
    (tmp_path / "mesh.json").write_text(text)

    with pytest.raises(InvalidRequest, match=r"mesh\.json cannot be read"):
        read_state(tmp_path)


def test_mesh_whose_processes_are_gone_is_stopped_and_can_be_taken_down(tmp_path: Path) -> None:
    """After a reboot, the file speaks of processes that are others by now."""
    directory = tmp_path / "mesh"
    directory.mkdir()
    entry = ProcessEntry(
        role="api", arguments=["x"], address="127.0.0.1:1", probe="grpc", log="l", pid=1, start_ticks=1
    )
    write_state(directory, state([entry]))
    mesh = Mesh(directory)

    (status,) = mesh.status()
    mesh.down()

    assert (status.state, status.health, status.cpu_s) == ("stopped", "-", 0.0)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"database_url": "host=elsewhere"}, "database"),
        ({"event_log_url": "pulsar://elsewhere:6650"}, "event log"),
        ({"events_url": "pulsar://elsewhere:6650"}, "topic of job events"),
    ],
)
def test_stopped_mesh_goes_on_only_where_its_jobs_are(tmp_path: Path, changes: dict[str, str], what: str) -> None:
    """On another database or log its jobs would be gone without a word."""
    write_state(tmp_path, replace(state([]), database_url="/here", embedded=True, stopped=True))
    mesh = Mesh(tmp_path)

    with pytest.raises(NotAllowedNow, match=f"another {what}"):
        mesh.up(replace(PLAN, **changes))
    with pytest.raises(NotFound, match="is stopped; `argosy up` goes on with it"):
        mesh.status()


def test_password_of_the_database_is_on_no_command_line(tmp_path: Path) -> None:
    """Servers are told the URL by a variable, the other services not at all."""
    entries = plan_processes(PLAN, tmp_path)
    assert {entry.role for entry in entries if entry.uses_database} == {"api", "leader"}
    assert not any(argument.startswith("--database") for entry in entries for argument in entry.arguments)


def test_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    """The default port is fixed, so that clients find the server; another program may have it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(NotAllowedNow, match=f"port {port} is taken"):
            Mesh(tmp_path / "mesh").up(replace(PLAN, port=port))
    assert not (tmp_path / "mesh").exists()


@pytest.mark.parametrize("is_kept", [False, True], ids=["gone", "kept"])
def test_passing_mesh_is_down_at_the_end_and_leaves_what_shall_be_kept(tmp_path: Path, is_kept: bool) -> None:  # noqa: FBT001 - a case
    """Whatever happens inside; a service manager's SIGTERM ends the block as Ctrl-C does."""
    before = signal.getsignal(signal.SIGTERM)
    directories: list[Path] = []

    def run() -> None:
        with passing_mesh(tmp_path / "mesh" if is_kept else None) as mesh:
            directories.append(mesh.directory)
            (mesh.directory / "logs").mkdir(parents=True)
            signal.raise_signal(signal.SIGTERM)

    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        signal.signal(signal.SIGTERM, before)

    assert [(directory / "logs").exists() for directory in directories] == [is_kept]


def test_role_that_is_none_is_named_with_those_there_are(tmp_path: Path) -> None:
    """A misspelt role tells the right ones."""
    write_state(tmp_path, state([]))

    with pytest.raises(NotFound, match="no role 'leadr'"):
        Mesh(tmp_path).kill("leadr")


@pytest.mark.parametrize("service", ["argosy_server", "argosy_sampler", "argosy_executor", "argosy_kube.simulated"])
def test_services_start_without_what_migrates_tables_and_draws_on_terminals(service: str) -> None:
    """A mesh starts several processes at once, so what each loads for nothing delays it by as much CPU time."""
    main = "__main__" if service == "argosy_kube.simulated" else "app"
    told = f"import sys, {service}.{main}; print(sorted({{'alembic', 'rich'}} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_waits_of_a_mesh_for_its_leader_are_short(tmp_path: Path) -> None:
    """It comes up last, and nobody else is served by long waits on one machine."""
    plan = MeshPlan(clusters=(ClusterPlan(name="c1", kinds="1:cpu=1"),))
    for entry in plan_processes(plan, tmp_path):
        if entry.role.startswith(("sampler", "executor")):
            assert entry.arguments[entry.arguments.index("--retry-most-s") + 1] == "0.3"

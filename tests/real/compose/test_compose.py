"""The stack of docker-compose.yml, as a newcomer starts it, with both generations of compose."""

import base64
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from images.engine import Compose, find_compose, running_engine
from images.upstream_images import ensure
from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlaneOptions

from argosy_local.processes import free_ports

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[3]
BASES = ROOT / "deploy" / "kustomize"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))[
    "services"
]
ONCE = {"secrets", "migrate", "setup-log"}
LASTING = sorted(name for name, service in SERVICES.items() if "profiles" not in service and name not in ONCE)
UP_S = 240.0
RECOVERY_S = 180.0
LABEL = "com.docker.compose.project"
AGENT_FILES = ("-f", "docker-compose.yml", "-f", "tests/real/compose/cluster-agent.yml")
NEEDED_IMAGES = ("PYTHON_IMAGE", "POSTGRES_IMAGE", "PULSAR_IMAGE", "PROMETHEUS_IMAGE", "COLLECTOR_IMAGE")
"""Grafana's is not among them: nothing here can make it."""
TRACED = ("api", "leader", "executor-a", "executor-b")
"""Services that have spans."""
NOT_YET = {
    "argosy_grpc_faults_total",
    "argosy_held_back_creates_total",
    "argosy_shipped_logs_total",
    "argosy_kube_calls_total",
    "argosy_kube_watch_heard_timestamp_seconds",
    "argosy_plugin_faults_total",
    "argosy_changed_jobs_total",
    "argosy_grpc_refused_total",
    "argosy_autoscaled_pods",
    "argosy_pod_resizes_total",
    "argosy_usage_failures_total",
    "argosy_contract_answers_total",
    "argosy_delegated_placements_total",
    "argosy_returned_placements_total",
}
"""Metrics without a series where no call or plugin failed or was refused, no quota was reached, no job was cancelled,
no cluster is delegated, and no API server and no agent is."""
FAILED_CALLS = 'code!="OK"'
REAL_NODES = {"example.test/control-plane": "real"}

JOBS = """\
queue: science
jobSet: {job_set}
count: {count}
spec:
  manifests:
    - apiVersion: v1
      kind: Pod
      metadata:
        annotations: {{argosy.dev/simulated-run-time: "{run_time}"}}
      spec:
        restartPolicy: Never
        nodeSelector: {{{selector}}}
        securityContext: {{runAsNonRoot: true, runAsUser: 65534, seccompProfile: {{type: RuntimeDefault}}}}
        containers:
          - name: main
            image: busybox:1.36
            securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
            resources: {{requests: {{cpu: "1", memory: 64Mi}}}}
"""


def say(line: str) -> None:
    """Tell what takes long."""
    sys.stderr.write(f"testbed: {line}\n")
    sys.stderr.flush()


def docker(*arguments: str, timeout_s: float = 60) -> str:
    """Run a command of the engine and return its output."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


def await_true(condition: Callable[[], bool], what: str, timeout_s: float) -> float:
    """Return the seconds until a condition held."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_s, f"{what}: not within {timeout_s:.0f} s"
        time.sleep(0.2)
    return time.monotonic() - started


@dataclass
class Stack:
    """A project of compose."""

    compose: Compose
    project: str
    directory: Path
    api_port: int
    environment: dict[str, str] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, timeout_s: float = 600) -> str:
        """Run a command of compose, from the project's own folder, and return its output."""
        environment = {
            **os.environ, **self.compose.environment, "API_PORT": str(self.api_port), "ARGOSY_TAG": "testbed",
            "CLUSTER_NODES": "25:cpu=32,memory=128Gi,pods=110", "PROMETHEUS_PORT": "0", "OTLP_PORT": "0",
            **self.environment,
        }  # fmt: skip
        done = subprocess.run(
            [*self.compose.command, "-p", self.project, *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, (
            f"compose {' '.join(arguments)}:\n{(done.stdout + done.stderr)[-4000:]}{self.logs()}"
        )
        return done.stdout

    def logs(self) -> str:
        """Return the last words of containers that are not well."""
        words = []
        for name, state in self.states().items():
            if state["Status"] != "running" or state.get("Health", {}).get("Status") != "healthy":
                container = state["Name"]
                done = subprocess.run(
                    ["docker", "logs", "--tail", "15", container], capture_output=True, text=True, check=False
                )
                words.append(f"\n--- {name}: {state['Status']} {state['ExitCode']}\n{done.stdout}{done.stderr}")
        return "".join(words)

    def states(self) -> dict[str, dict[str, Any]]:
        """Return the state of each container by its service."""
        ids = docker("ps", "-aq", "--filter", f"label={LABEL}={self.project}").split()
        if not ids:
            return {}
        return {
            entry["Config"]["Labels"]["com.docker.compose.service"]: {
                **entry["State"], "Name": entry["Name"].lstrip("/"), "RestartCount": entry["RestartCount"],
                "MemoryLimit": entry["HostConfig"]["Memory"], "User": entry["Config"]["User"],
            }
            for entry in json.loads(docker("inspect", *ids))
        }  # fmt: skip

    def is_healthy(self, *others: str) -> bool:
        """Return whether all that lasts, and others of profiles, are healthy and all that is done once is done."""
        states = self.states()
        lasting = (*LASTING, *others)
        return all(states.get(name, {}).get("Health", {}).get("Status") == "healthy" for name in lasting) and all(
            states.get(name, {}).get("Status") == "exited" and states[name]["ExitCode"] == 0 for name in ONCE
        )

    def memory_mib(self) -> dict[str, float]:
        """Return what each lasting container uses."""
        units = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
        used = {}
        names = {state["Name"]: name for name, state in self.states().items() if name in LASTING}
        form = "{{.Name}} {{.MemUsage}}"
        for line in docker("stats", "--no-stream", "--format", form, *names).splitlines():
            name, amount = line.split()[:2]
            used[names[name]] = float(amount[:-3]) * units[amount[-3:]]
        return used

    def kill(self, service: str) -> None:
        """Kill a service's first process from outside, as the machine's memory killer would; the engine restarts it."""
        pid = self.states()[service]["Pid"]
        script = f"import os; os.kill({pid}, 9)"
        image = "argosy/argosy:testbed"
        docker(
            "run",
            "--rm",
            "--pid=host",
            "--cap-drop=ALL",
            "--cap-add=KILL",
            "-u",
            "0",
            "--entrypoint",
            "python",
            image,
            "-c",
            script,
        )

    def argosy(self, *arguments: str, timeout_s: float = 120, expected: int = 0) -> str:
        """Run the command of the host."""
        done = subprocess.run(
            [sys.executable, "-m", "argosy_cli", *arguments], env=self.command_environment(),
            capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == expected, f"argosy {' '.join(arguments)}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def command_environment(self) -> dict[str, str]:
        """Return the variables with which the host's command finds its contexts."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
        return {**kept, "ARGOSY_CONFIG": str(self.directory / "config.toml")}

    def use(self) -> None:
        """Let the host's command reach the stack, by the very line that docs/deploy.md gives."""
        bundle = self.run("run", "--rm", "-T", "access")
        command = [sys.executable, "-m", "argosy_cli", "context", "import", "compose"]
        environment = self.command_environment()
        subprocess.run(command, input=bundle, text=True, env=environment, check=True, capture_output=True, timeout=60)

    def submit(self, job_set: str, *, count: int, run_time: str, selector: str = "") -> None:
        """Submit jobs."""
        path = self.directory / f"{job_set}.yaml"
        path.write_text(JOBS.format(job_set=job_set, count=count, run_time=run_time, selector=selector))
        self.argosy("submit", "-f", str(path))

    def connected_clusters(self) -> set[str]:
        """Return the clusters whose sampler and executor the leader has greeted."""
        listed = json.loads(self.argosy("-o", "json", "cluster", "list"))
        return {entry["name"] for entry in listed if entry["samplerConnected"] and entry["executorConnected"]}

    def succeeded_count(self, job_set: str) -> int:
        """Return how many jobs of a job set are told as succeeded."""
        selector = ("--queue", "science", "--job-set", job_set, "--state", "succeeded", "--limit", "100000")
        shown = self.argosy("--timeout", "30", "-o", "jsonl", "jobs", *selector)
        return len(shown.splitlines())


@pytest.fixture(scope="module")
def engine(real_directory: Path, note_part: Callable[[str, str], None]) -> Iterator[str]:
    """An engine that has the images which the stack names and cannot build."""
    with running_engine(real_directory / "engine", say=say) as version:
        note_part("container engine", version)
        settings = dict(
            line.split("=", 1) for line in (ROOT / ".env").read_text().splitlines() if line and not line.startswith("#")
        )
        for reference, origin in ensure([settings[name] for name in NEEDED_IMAGES], say=say).items():
            note_part(f"image {reference}", origin)
        yield version


@pytest.fixture(scope="module")
def built() -> list[str]:
    """Who has built the images in this run; nobody yet."""
    return []


@pytest.fixture(scope="module", params=[2, 1], ids=["v2", "v1"])
def stack(
    request: pytest.FixtureRequest, engine: str, built: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The stack, up and healthy, and taken down afterwards."""
    note_part: Callable[[str, str], None] = request.getfixturevalue("note_part")
    compose = find_compose(request.param, say=say)
    (port,) = free_ports(1)
    project = f"argosy-test-{os.getpid()}-{request.param}"
    stack = Stack(compose=compose, project=project, directory=tmp_path_factory.mktemp("jobs"), api_port=port)
    try:
        if not built:  # once for both: the other builder would fetch and compile everything again
            say("building images")
            started = time.monotonic()
            stack.run(*AGENT_FILES, "build", timeout_s=900)
            stack.figures["images built"] = f"{time.monotonic() - started:.0f} s"
            built.append(compose.version)
        started = time.monotonic()
        stack.run("up", "-d", "--no-build")
        await_true(stack.is_healthy, "all services healthy", UP_S)
        stack.figures["up to healthy"] = f"{time.monotonic() - started:.1f} s"
        stack.use()
        stack.figures["up to a context"] = f"{time.monotonic() - started:.1f} s"
        yield stack
    finally:
        started = time.monotonic()
        take_down(stack, with_profile=request.param == 2)
        stack.figures["down"] = f"{time.monotonic() - started:.1f} s"
        note_part(f"compose {compose.version}", ", ".join(f"{name} {value}" for name, value in stack.figures.items()))
        left = [
            docker(*kind, "-q", "--filter", f"label={LABEL}={project}")
            for kind in (("ps", "-a"), ("volume", "ls"), ("network", "ls"))
        ]
        assert left == ["", "", ""], "`down -v` left something behind"


def take_down(stack: Stack, *, with_profile: bool) -> None:
    """Remove everything by the very command that docs/deploy.md gives, once with containers of a profile there."""
    profile = ("--profile", "observability") if with_profile else ()
    try:
        if with_profile:
            stack.run(*profile, "up", "-d", "--no-build", "--no-deps", "collector", "prometheus")
    finally:
        stack.run(*profile, "down", "-v")


def test_job_runs_through_the_stack_by_the_command_of_the_host(stack: Stack) -> None:
    """A newcomer's first job: a queue, a submit, a watch; both clusters are there."""
    stack.argosy("queue", "create", "science")

    # Health of a container says that it serves, which may be a moment before the leader has greeted it.
    await_true(lambda: stack.connected_clusters() == {"a", "b"}, "both clusters known", 60)
    started = time.monotonic()
    stack.submit("first", count=1, run_time="1s")
    stack.argosy("watch", "science", "first")
    stack.figures["a job of 1 s"] = f"{time.monotonic() - started:.1f} s"
    assert stack.succeeded_count("first") == 1


def test_nobody_gets_in_without_a_token(stack: Stack) -> None:
    """The published port speaks TLS and asks who calls; the stack's own is not published."""
    authority = stack.directory / "compose" / "authority.pem"
    address = f"127.0.0.1:{stack.api_port}"
    nobody = {"ARGOSY_CONFIG": str(stack.directory / "none.toml"), "ARGOSY_SERVER": address}
    for environment, said in (
        ({**nobody, "ARGOSY_AUTHORITY_FILE": str(authority)}, "who calls is not known"),
        (nobody, "failed to connect"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "argosy_cli", "--timeout", "3", "queue", "list"],
            env={**stack.command_environment(), **environment}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert said in done.stderr, done.stderr


def test_containers_use_less_than_three_fifths_of_their_memory(stack: Stack) -> None:
    """Every container has a limit and is far from it; ours are not root."""
    states, used = stack.states(), stack.memory_mib()
    stack.figures["MiB"] = " ".join(f"{name}={used[name]:.0f}" for name in LASTING)
    limits = {name: states[name]["MemoryLimit"] / 2**20 for name in LASTING}
    assert {name: (used[name], limits[name]) for name in LASTING if not 0 < used[name] < 0.6 * limits[name]} == {}
    assert {states[name]["User"] for name in LASTING if "build" in SERVICES[name]} == {"10001:10001"}


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the repository."""
    command = [sys.executable, str(ROOT / "tools" / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("stack", [2], indirect=True, ids=["v2"])
def test_image_passes_with_its_bill_as_it_was_signed_and_no_other(stack: Stack) -> None:
    """The bill names what the image holds; another key, bill or layer is refused."""
    started, image = time.monotonic(), "argosy/server:testbed"
    folder = stack.directory / "release"
    folder.mkdir()
    archive, bill, said = folder / "server.tar", folder / "server.cdx.json", folder / "provenance.json"
    docker("save", "-o", str(archive), image, timeout_s=120)
    made = tool("sbom", "--archive", str(archive))
    assert made.returncode == 0, made.stderr
    bill.write_text(made.stdout)
    held = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
    listed = "dpkg-query -W -f='deb/${Package}==${Version} '"
    run = ("run", "--rm", "--network=none", "--entrypoint")
    has = docker(*run, "python", image, "-c", held).split() + docker(*run, "sh", image, "-c", listed).split()
    named = {
        f"{one['bom-ref'] if one['bom-ref'].startswith('deb/') else re.sub('[-_.]+', '-', one['name']).lower()}"
        f"=={one['version']}"
        for one in json.loads(made.stdout)["components"]
    }
    found = {one if one.startswith("deb/") else re.sub("[-_.]+", "-", one.rpartition("==")[0]).lower() + "==" +
             one.rpartition("==")[2] for one in has}  # fmt: skip
    assert len(found) > 50
    assert found <= named, found - named
    keys = [folder / name for name in ("own.key", "own.pub", "other.key", "other.pub")]
    for private, public in (keys[:2], keys[2:]):
        assert tool("attest", "key", str(private), str(public)).returncode == 0
    files = (str(archive), str(bill))
    assert tool("attest", "sign", "--key", str(keys[0]), "--out", str(said), *files).returncode == 0

    def check(key: Path) -> tuple[int, str]:
        done = tool("attest", "verify", "--key", str(key), str(said), *files)
        return done.returncode, done.stdout + done.stderr

    status, told = check(keys[1])
    assert (status, f"{image} is image {docker('image', 'inspect', '--format', '{{.Id}}', image)}" in told) == (0, True)
    assert check(keys[3]) == (1, "error: the signature is not of this key, or what was signed was changed\n")
    with archive.open("r+b") as file:  # the middle of an archive is the middle of a layer
        file.seek(archive.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
        file.flush()
        assert check(keys[1]) == (1, "error: server.tar is not the file that was signed\n")
        file.seek(-1, os.SEEK_CUR)
        file.write(byte)
    bill.write_text(made.stdout.replace("numpy", "numpie"))
    assert check(keys[1]) == (1, "error: server.cdx.json is not the file that was signed\n")
    archive.unlink()
    stack.figures["image signed and checked"] = f"{time.monotonic() - started:.1f} s"


def dashboard_queries() -> set[str]:
    """Return every query of the dashboards, with what Grafana would put in place of its variables."""
    paths = sorted((ROOT / "deploy" / "observability" / "grafana" / "dashboards").glob("*.json"))
    panels = [panel for path in paths for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > 40
    values = {"$__rate_interval": "40s", "$cluster": ".*", "$pool": ".*"}
    return {re.sub(r"\$\w+", lambda found: values[found[0]], query) for query in queries}


def evaluate(port: str, query: str) -> str:
    """Return `success`, or what Prometheus has against a query."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(json.load(answer)["status"])
    except urllib.error.HTTPError as error:
        return error.read().decode()


def is_so(port: str, condition: str) -> bool:
    """Return whether Prometheus has any series for which a condition holds."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': condition})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bool(json.load(answer)["data"]["result"])


@pytest.fixture
def observed(stack: Stack) -> Iterator[str]:
    """The stack with the profile and traces on; the port of Prometheus.

    Afterwards the services go on sending to a collector that is no more, which must not matter to any other test.
    """
    stack.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://collector:4317"
    profile = ("--profile", "observability")
    stack.run(*profile, "up", "-d", "--no-build", "--no-deps", "collector", "prometheus", *TRACED)
    try:
        await_true(lambda: stack.is_healthy("prometheus"), "all services healthy, with traces", UP_S)
        yield stack.run(*profile, "port", "prometheus", "9090").strip().rpartition(":")[2]
        assert stack.states()["collector"]["RestartCount"] == stack.states()["prometheus"]["RestartCount"] == 0
    finally:
        stack.run(*profile, "rm", "-sf", "collector", "prometheus")


def test_observability_shows_every_service_its_alerts_and_its_traces(stack: Stack, observed: str) -> None:
    """With the profile, all of ours is scraped, rules are loaded and none fires, and spans reach the collector."""
    port = observed

    def ask(path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {}

    def up() -> set[str]:
        targets = ask("targets").get("activeTargets", ())
        return {target["labels"]["instance"] for target in targets if target["health"] == "up"}

    def alarmed() -> list[str]:
        return [rule["name"] for rule in ask("rules")["groups"][0]["rules"] if rule["state"] != "inactive"]

    expected = {f"{name}:9090" for name in ("api", "leader", "sampler-a", "sampler-b", "executor-a", "executor-b")}
    expected.add("collector:8888")
    await_true(lambda: expected <= up(), "all services scraped", 60)
    await_true(lambda: stack.connected_clusters() == {"a", "b"}, "both clusters known again", 60)
    stack.submit("traced", count=20, run_time="1s")
    stack.argosy("watch", "science", "traced")
    rules = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 10
    await_true(
        lambda: all(rule["health"] == "ok" for rule in ask("rules")["groups"][0]["rules"]), "rules evaluated", 30
    )
    # An alert has to last before it is told, longer than this test: one that only waits for that is false, too.
    await_true(lambda: not alarmed(), "no alert fires or is about to", 60)
    refused = {query: said for query in dashboard_queries() if (said := evaluate(port, query)) != "success"}
    assert refused == {}
    # What is labelled by something that has not happened has no series yet; what every process has must be there.
    asked = {name for query in dashboard_queries() for name in re.findall(r"\b(?:argosy|process)_[a-z_0-9]+", query)}
    await_true(lambda: asked - set(ask("label/__name__/values")) <= NOT_YET, "every metric there", 60)
    shown = {query for query in dashboard_queries() if not any(word in query for word in {*NOT_YET, FAILED_CALLS})}
    await_true(lambda: all(is_so(port, query) for query in shown), "every panel has data", 60)
    for condition in (
        'otelcol_receiver_accepted_spans_total{receiver="otlp"} >= 4',  # submit, round, publish, rows at least
        'otelcol_exporter_sent_spans_total{exporter="debug"} >= 4',
    ):
        await_true(lambda condition=condition: is_so(port, condition), condition, 40)  # type: ignore[misc]


def test_killed_containers_come_back_and_no_job_is_lost(stack: Stack) -> None:
    """Whichever process dies under load, the engine starts it again and every job ends once."""
    count = 1500
    stack.submit("load", count=count, run_time="2s-4s")
    for service in ("leader", "executor-a", "sampler-b", "pulsar", "postgres", "api"):
        before = stack.states()[service]["RestartCount"]
        stack.kill(service)
        await_true(lambda name=service, count=before: stack.states()[name]["RestartCount"] > count, service, 30)  # type: ignore[misc]
    recovered_s = await_true(stack.is_healthy, "all services healthy again", RECOVERY_S)
    stack.figures["healthy after six kills"] = f"{recovered_s:.1f} s"
    await_true(lambda: stack.succeeded_count("load") == count, f"{count} jobs succeeded", RECOVERY_S)


@pytest.fixture(scope="module")
def real_cluster(kube_api_factory: Callable[..., KubeApi]) -> Iterator[KubeApi]:
    """A real control plane that containers reach, with the accounts of our kustomize bases."""
    cluster = kube_api_factory(ControlPlaneOptions(server_flags=("--bind-address=0.0.0.0",)))
    cluster.add_nodes(2, prefix="real", labels=REAL_NODES)
    for base in ("cluster", "cluster-agent"):
        documents = yaml.safe_load_all(cluster.kubectl("kustomize", str(BASES / base)))
        accounts = [document for document in documents if document["kind"] != "Deployment"]
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(accounts))
    yield cluster
    cluster.stop()


def token_of(cluster: KubeApi, account: str) -> str:
    """Return a token of an account of ours."""
    return cluster.kubectl("create", "token", account, "-n", "argosy", "--duration=1h").strip()


def gateway_of(stack: Stack) -> str:
    """Return the address by which containers of the stack reach this machine."""
    return docker("network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", f"{stack.project}_default")


def run_job_on_real_cluster(stack: Stack, cluster: KubeApi, job_set: str) -> None:
    """Run a job that only a node of the real cluster may take, and see its pod there."""
    await_true(lambda: "kubernetes" in stack.connected_clusters(), "the real cluster connected", 60)
    before = cluster.kubelet.counts().get("running", 0)
    started = time.monotonic()
    stack.submit(job_set, count=3, run_time="1s", selector=json.dumps(REAL_NODES).strip("{}"))
    stack.argosy("watch", "science", job_set)
    stack.figures[f"three jobs by the {job_set}"] = f"{time.monotonic() - started:.1f} s"
    assert stack.succeeded_count(job_set) == 3
    assert cluster.kubelet.counts().get("running", 0) - before == 3


def test_jobs_run_on_a_real_cluster_by_the_kubernetes_profile(stack: Stack, real_cluster: KubeApi) -> None:
    """With the profile and a kubeconfig of the executor's account, a real cluster is one more in the stack."""
    where = f"https://{gateway_of(stack)}:{real_cluster.url.rpartition(':')[2]}"
    authority = base64.b64encode(real_cluster.ca.read_bytes()).decode()
    cluster = {"server": where, "certificate-authority-data": authority, "tls-server-name": "kubernetes"}
    path = stack.directory / "kubeconfig.yaml"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "here", "cluster": cluster}],
                "users": [{"name": "user", "user": {"token": token_of(real_cluster, "argosy-executor")}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "user"}}],
                "current-context": "here",
            }
        )
    )
    path.chmod(0o644)
    stack.environment["KUBECONFIG_FILE"] = str(path)
    services = ("sampler-kubernetes", "executor-kubernetes")
    stack.run("--profile", "kubernetes", "up", "-d", "--no-build", "--no-deps", *services)
    try:
        run_job_on_real_cluster(stack, real_cluster, "profile")
    finally:
        stack.run("--profile", "kubernetes", "rm", "-sf", *services)


def test_jobs_run_on_a_real_cluster_by_the_image_of_the_cluster_agent(
    stack: Stack, real_cluster: KubeApi, tmp_path: Path
) -> None:
    """With what Kubernetes gives a pod of its account, the cluster agent serves its cluster, from inside as it were."""
    tmp_path.chmod(0o755)
    (tmp_path / "token").write_text(token_of(real_cluster, "argosy-cluster-agent"))
    (tmp_path / "namespace").write_text("argosy")
    (tmp_path / "ca.crt").write_bytes(real_cluster.ca.read_bytes())
    stack.environment |= {
        "TEST_ACCOUNT_FOLDER": str(tmp_path),
        "TEST_CLUSTER_HOST": gateway_of(stack),
        "TEST_CLUSTER_PORT": real_cluster.url.rpartition(":")[2],
    }
    stack.run(*AGENT_FILES, "up", "-d", "--no-build", "--no-deps", "cluster-agent")
    try:
        run_job_on_real_cluster(stack, real_cluster, "cluster-agent")
        await_true(
            lambda: stack.states()["cluster-agent"].get("Health", {}).get("Status") == "healthy", "its health", 30
        )
    finally:
        stack.run(*AGENT_FILES, "rm", "-sf", "cluster-agent")

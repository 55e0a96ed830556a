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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testbed.cluster import KubeApi

from .dashboards import NOT_YET, dashboard_queries, evaluate, is_so
from .stack import AGENT_FILES, LASTING, REAL_NODES, ROOT, SERVICES, UP_S, Stack, await_true, docker

pytestmark = pytest.mark.timeout(900)

RECOVERY_S = 180.0
TRACED = ("api", "leader", "executor-a", "executor-b")
"""Services that have spans."""
FAILED_CALLS = 'code!="OK"'


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

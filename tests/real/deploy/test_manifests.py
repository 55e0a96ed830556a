"""Kustomize bases and Helm chart, taken by a real API server; the rights they give, by the same server's answers."""

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from testbed.cluster import KubeApi
from tests.real.deploy.charts import CHARTS, DEPLOY, container_of, documents_of, render_chart

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy.autoscale.v1 import permit_pb2_grpc
from argosy.channel_credentials import ChannelCredentials, open_aio_channel
from argosy_agent.config import AgentConfig
from argosy_client import ArgosyClient
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.access import ANYONE, Permissions, Principal
from argosy_core.errors import BackendUnavailable, NotAuthenticated
from argosy_executor.config import ExecutorConfig
from argosy_runtime.access.guard import CALLER, CallerSettings, Guard
from argosy_runtime.config import load_config
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_sampler.app import make_server
from argosy_sampler.config import SamplerConfig
from argosy_server.config import ServerConfig

pytestmark = pytest.mark.timeout(600)

BASES = (
    "agent",
    "cluster",
    "cluster-agent",
    "cluster-agent-autoscale",
    "executor-namespace",
    "server",
    "server-events",
)
CONFIGS: dict[str, type[Any]] = {
    "SERVER": ServerConfig, "SAMPLER": SamplerConfig, "EXECUTOR": ExecutorConfig, "CLUSTER_AGENT": ClusterAgentConfig,
    "AGENT": AgentConfig,
}  # fmt: skip

SERVED = ("science", "training")
"""Namespaces of jobs."""
WHO = "/argosy.api.v1.AccessService/WhoAmI"


class WhoAmI(access_pb2_grpc.AccessServiceServicer):
    """Answers who calls."""

    async def WhoAmI(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer the caller's name."""
        return access_pb2.WhoAmIResponse(name=CALLER.get().principal.name)


@pytest.fixture(scope="module")
def cluster(kube_api: KubeApi) -> KubeApi:
    """A cluster with the namespace of Argosy, at its restricted level, and the rights of what runs in it."""
    for base in ("cluster", "cluster-agent", "agent"):
        manifests = kube_api.kubectl("kustomize", str(DEPLOY / "kustomize" / base))
        documents = [document for document in yaml.safe_load_all(manifests) if document["kind"] != "Deployment"]
        kube_api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "argosy-api", "namespace": "argosy"}}
    kube_api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(account))
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in SERVED]
    kube_api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(spaces))
    return kube_api


def take(cluster: KubeApi, manifests: str) -> list[dict[str, Any]]:
    """Let the API server check manifests, unknown fields included, and every pod that they would make."""
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests)
    documents = [document for document in yaml.safe_load_all(manifests) if document]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"try-{document['metadata']['name']}", "namespace": "argosy"},
            "spec": document["spec"]["template"]["spec"],
        }
        for document in documents
        if document["kind"] in {"Deployment", "Job"}
    ]
    # The namespace enforces the restricted level, so a pod that asks for more is refused here.
    if pods:
        cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(pods))
    return documents


@pytest.mark.parametrize("base", BASES)
def test_api_server_takes_kustomize_base(cluster: KubeApi, base: str) -> None:
    """Every field is known to the API server, and pods are fit for a restricted namespace."""
    assert take(cluster, cluster.kubectl("kustomize", str(DEPLOY / "kustomize" / base)))


@pytest.mark.parametrize("chart", CHARTS)
def test_api_server_takes_chart_and_services_their_settings(cluster: KubeApi, helm: str, chart: str) -> None:
    """So it is with the chart, and each service loads the variables that the chart gives it."""
    for document in take(cluster, render_chart(helm, *CHARTS[chart])):
        if document["kind"] != "Deployment":
            continue
        (container,) = document["spec"]["template"]["spec"]["containers"]
        values = {entry["name"]: entry.get("value", "elsewhere") for entry in container["env"]}
        own = {name: value for name, value in values.items() if name.startswith("ARGOSY_")}
        (prefix,) = (prefix for prefix in CONFIGS if all(name.startswith(f"ARGOSY_{prefix}_") for name in own))
        load_config(CONFIGS[prefix], [], own)


@pytest.mark.parametrize("chart", ["all", "cluster"])
def test_chart_gives_the_rights_of_the_bases(cluster: KubeApi, helm: str, chart: str) -> None:
    """There is one list of rights, whichever way is taken; that of binding stands only where it is used."""

    def rights(manifests: str) -> dict[str, str]:
        return {
            document["metadata"]["name"].partition(".")[0]: json.dumps(document["rules"], sort_keys=True)
            for document in yaml.safe_load_all(manifests)
            if document and document["kind"] == "ClusterRole"
        }

    base = rights(cluster.kubectl("kustomize", str(DEPLOY / "kustomize" / "cluster")))
    assert "pods/binding" not in base["argosy-executor"]
    for binding in ("node-name", "affinity"):
        assert rights(render_chart(helm, *CHARTS[chart], "--set", f"cluster.binding={binding}")) == base != {}
    given = rights(render_chart(helm, *CHARTS[chart], "--set", "cluster.binding=subresource"))
    rules = json.loads(given["argosy-executor"])
    binding_rule = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    assert binding_rule in rules
    rules.remove(binding_rule)
    assert {**given, "argosy-executor": json.dumps(rules, sort_keys=True)} == base


def test_executor_of_the_chart_sees_and_makes_in_named_namespaces_and_reads_no_secret(
    cluster: KubeApi, helm: str
) -> None:
    """The API server says what the account may: all with pods where it is named, nothing elsewhere, and no secrets."""
    chosen = f"cluster.executor.serviceAccount=narrow,cluster.executor.namespaces={{{','.join(SERVED)}}}"
    rendered = render_chart(helm, *CHARTS["cluster"], "--set", chosen, "--set", "cluster.executor.secrets=false")
    rights = [one for one in yaml.safe_load_all(rendered) if one and one["kind"].startswith(("ClusterRole", "Role"))]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))

    def may(verb: str, resource: str, namespace: str = "") -> bool:
        asked = {"verb": verb, "resource": resource, "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "system:serviceaccount:argosy:narrow", "resourceAttributes": asked},
        }
        answer = cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review))
        return bool(json.loads(answer)["status"]["allowed"])

    try:
        verbs = ("get", "list", "watch", "create", "delete", "patch")
        assert [may(verb, "pods", "training") for verb in verbs] == [True] * 6
        assert [may(verb, "pods", "kube-system") for verb in verbs] == [False] * 6
        assert not may("list", "pods")
        assert not may("list", "configmaps")
        assert may("watch", "nodes")
        executor = container_of(rendered, "executor")["env"]
        assert {"name": "ARGOSY_EXECUTOR_KUBERNETES_NAMESPACES", "value": "science,training"} in executor
        assert "NAMESPACES" not in json.dumps(container_of(rendered, "sampler")["env"])
        assert not any(may(verb, "secrets", name) for verb in ("get", "list", "create") for name in SERVED)
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(rights))


async def test_chart_comes_up_with_tls_and_asks_who_calls(helm: str, tmp_path: Path) -> None:
    """With the secrets that it draws a server knows its administrator, its cluster and other servers, and nobody else.

    No server of the chart listens without them, and they are yours where you say so.
    """
    rendered = render_chart(helm, "--set", "security.hosts={argosy.example.org}")
    for name, secret in documents_of(rendered, "Secret").items():
        (tmp_path / name).mkdir()
        for key, value in secret["data"].items():
            (tmp_path / name / key).write_bytes(base64.b64decode(value))
    for name, document in documents_of(rendered, "Deployment").items():
        (container,) = document["spec"]["template"]["spec"]["containers"]
        names = {entry["name"] for entry in container["env"]}
        is_server = name in {"argosy-api", "argosy-leader"}
        assert is_server == ("ARGOSY_SERVER_GRPC_CERTIFICATE_FILE" in names)
        assert not (is_server and "ARGOSY_SERVER_GRPC_INSECURE" in names)
    own = tmp_path / "argosy-server"

    async def nothing(_: Principal) -> Permissions:
        return Permissions()

    settings = GrpcSettings(listen="127.0.0.1:0", certificate_file=str(own / "tls.crt"), key_file=str(own / "tls.key"))
    guard = Guard(CallerSettings(tokens_file=str(own / "tokens.yaml")), rules={WHO: ANYONE}, permissions_of=nothing)
    server = GrpcServer(settings, guard=guard)
    server.add(access_pb2_grpc.add_AccessServiceServicer_to_server, WhoAmI(), "argosy.api.v1.AccessService")
    await server.start()
    try:
        for name, known_as in (("admin", "admin"), ("cluster", "kubernetes"), ("server", "server")):
            folder = tmp_path / f"argosy-{name}"
            for server_name in ("argosy-server", "argosy-api.argosy.svc", "argosy.example.org", ""):
                credentials = ChannelCredentials(
                    authority_file=str(folder / "ca.crt"), token_file=str(folder / "token"), server_name=server_name
                )
                async with ArgosyClient(server.address, credentials=credentials) as client:
                    assert (await client.who_am_i()).name == known_as
        (tmp_path / "foreign").write_text("argosy_foreign")
        stranger = ChannelCredentials(
            authority_file=str(tmp_path / "argosy-admin" / "ca.crt"), token_file=str(tmp_path / "foreign")
        )
        async with ArgosyClient(server.address, credentials=stranger) as client:
            with pytest.raises(NotAuthenticated):
                await client.who_am_i()
    finally:
        await server.stop(0)
    assert not documents_of(render_chart(helm, "--set", "security.create=false"), "Secret")
    assert not documents_of(render_chart(helm, *CHARTS["cluster"]), "Secret")


@pytest.mark.parametrize("chart", ["agent", "agent that asks kubelets"])
async def test_agent_of_the_chart_asks_for_permits_over_tls_by_a_token_of_its_own(
    helm: str, tmp_path: Path, chart: str
) -> None:
    """Sampler, or cluster agent, and agent know each other by what the chart draws; who has no token is refused."""
    rendered = render_chart(helm, *CHARTS[chart])
    secrets = documents_of(rendered, "Secret")
    part = "cluster-agent" if chart == "agent" else "sampler"
    deployments = documents_of(rendered, "Deployment")

    def read(name: str) -> Any:
        """Return the configuration of a pod, with the secrets that it mounts as files."""
        spec = deployments[f"argosy-{name}"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        values = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        for volume in spec["volumes"]:
            if "secret" in volume:
                folder = tmp_path / name / volume["name"]
                folder.mkdir(parents=True)
                for key, content in secrets[volume["secret"]["secretName"]]["data"].items():
                    (folder / key).write_bytes(base64.b64decode(content))
                path = f"{mounts[volume['name']]}/"
                values = {key: value.replace(path, f"{folder}/") for key, value in values.items()}
        prefix = f"ARGOSY_{name.upper().replace('-', '_')}"
        own = {f"{prefix}_GRPC_LISTEN": "127.0.0.1:0", f"{prefix}_GRPC_HEALTH_LISTEN": ""}
        return load_config(CONFIGS[name.upper().replace("-", "_")], [], {**values, **own})

    listening, agent = read(part), read("agent")
    assert not listening.grpc.insecure
    assert agent.sampler_address == "argosy-permits.argosy.svc:50051"
    server, _ = make_server(listening.grpc, listening.access, cluster="kubernetes")
    await server.start()
    try:
        codes = []
        for metadata in (agent.credentials.metadata(server.address), ()):
            async with open_aio_channel(server.address, agent.credentials, ()) as channel:
                stream = permit_pb2_grpc.PermitServiceStub(channel).Session(metadata=metadata, timeout=5)
                await stream.done_writing()
                codes.append((await stream.code(), await stream.details()))
    finally:
        await server.stop(0)
    # With its token it comes as far as a sampler that has not listed its cluster, as nobody runs it here.
    assert codes[0] == (grpc.StatusCode.UNAVAILABLE, "the sampler has not yet listed the cluster's pods; dial again")
    assert codes[1][0] == grpc.StatusCode.UNAUTHENTICATED


def test_roles_of_two_installations_do_not_collide(helm: str) -> None:
    """Cluster roles belong to no namespace: their names say of which namespace and release they are."""
    chart = str(DEPLOY / "helm" / "argosy")
    found: list[str] = []
    for release, namespace in (("argosy", "argosy"), ("argosy", "other"), ("second", "argosy")):
        command = [helm, "template", release, chart, "-n", namespace, "--kube-version", "1.33.0"]
        rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            found += [f"{kind} {name}" for name in documents_of(rendered, kind)]
    assert len(set(found)) == len(found) == 12


@pytest.mark.parametrize(
    "bases", [("cluster", "agent"), ("cluster-agent",), ("cluster-agent-autoscale",)], ids="+".join
)
def test_overlays_of_two_installations_do_not_collide(kube_api: KubeApi, tmp_path: Path, bases: Sequence[str]) -> None:
    """With a namespace and a suffix of its own, an overlay has roles of its own, for its own accounts alone."""
    found: list[str] = []
    for namespace, suffix in (("argosy", ""), ("second", "-second")):
        folder = tmp_path / namespace
        folder.mkdir()
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": namespace,
            "nameSuffix": suffix,
            "resources": [os.path.relpath(DEPLOY / "kustomize" / base, folder) for base in bases],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
        rendered = kube_api.kubectl("kustomize", str(folder))
        roles, bindings, accounts = (
            documents_of(rendered, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "ServiceAccount")
        )
        given = {
            (binding["roleRef"]["name"], subject["namespace"], subject["name"])
            for binding in bindings.values()
            for subject in binding["subjects"]
        }
        assert {account["metadata"]["namespace"] for account in accounts.values()} == {namespace}
        assert given == {(name, namespace, name) for name in accounts}
        assert set(roles) == set(accounts)
        found += [*roles, *(f"binding {name}" for name in bindings)]
    assert len(set(found)) == len(found) > 0


def test_agent_inside_the_cluster_agent_has_its_rights_there_and_no_pod_of_its_own(helm: str) -> None:
    """The cluster agent's account is given what the agent needs, and nothing listens for agents from outside."""
    documents = [one for one in yaml.safe_load_all(render_chart(helm, *CHARTS["agent inside"])) if one]
    names = {(one["kind"], one["metadata"]["name"]) for one in documents}
    assert not names & {(kind, "argosy-agent") for kind in ("Deployment", "ServiceAccount")}
    assert ("Service", "argosy-permits") not in names
    (binding,) = [
        one for one in documents if one["metadata"]["name"] == "argosy-agent.argosy.argosy" and "roleRef" in one
    ]
    assert [one["name"] for one in binding["subjects"]] == ["argosy-executor"]
    (container,) = [
        one["spec"]["template"]["spec"]["containers"][0]
        for one in documents
        if one["kind"] == "Deployment" and one["metadata"]["name"] == "argosy-cluster-agent"
    ]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["ARGOSY_CLUSTER_AGENT_AGENT_ENABLED"] == "true"
    assert variables["ARGOSY_CLUSTER_AGENT_AGENT_METRICS"] == "kubelet-page"


def test_base_of_the_cluster_agent_that_resizes_pods_gives_it_what_an_agent_may_do(kube_api: KubeApi) -> None:
    """One process with the rights of both and the setting that makes it resize; nothing else differs from its base."""

    def render(base: str) -> dict[tuple[str, str], dict[str, Any]]:
        documents = yaml.safe_load_all(kube_api.kubectl("kustomize", str(DEPLOY / "kustomize" / base)))
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    role, deployment = (("ClusterRole", "argosy-cluster-agent"), ("Deployment", "argosy-cluster-agent"))
    plain, scaling, agent = render("cluster-agent"), render("cluster-agent-autoscale"), render("agent")
    given = {
        (group, resource, verb, *rule.get("resourceNames", ()))
        for rule in scaling[role]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for rule in agent["ClusterRole", "argosy-agent"]["rules"]:
        (group,), (resource,) = rule["apiGroups"], rule["resources"]
        assert {(group, resource, verb, *rule.get("resourceNames", ())) for verb in rule["verbs"]} <= given
    (container,) = scaling[deployment]["spec"]["template"]["spec"]["containers"]
    values = {entry["name"]: entry.get("value", "info") for entry in container["env"]}
    assert load_config(CONFIGS["CLUSTER_AGENT"], [], values).agent.enabled
    assert len(container["env"]) - len(plain[deployment]["spec"]["template"]["spec"]["containers"][0]["env"]) == 2
    assert {key for key in plain.keys() | scaling.keys() if plain.get(key) != scaling.get(key)} == {role, deployment}


@pytest.mark.parametrize(
    ("account", "verb", "resource", "allowed"),
    [
        ("argosy-sampler", "watch", "pods", True),
        ("argosy-sampler", "list", "nodes", True),
        ("argosy-sampler", "create", "pods", False),
        ("argosy-sampler", "get", "secrets", False),
        ("argosy-executor", "create", "pods", True),
        ("argosy-executor", "delete", "services", True),
        ("argosy-executor", "get", "pods/log", True),
        ("argosy-executor", "create", "pods/binding", False),
        ("argosy-executor", "list", "events", True),
        ("argosy-executor", "create", "pods/eviction", False),
        ("argosy-executor", "create", "pods/exec", False),
        ("argosy-executor", "patch", "nodes", False),
        ("argosy-executor", "delete", "namespaces", False),
        ("argosy-executor", "create", "clusterrolebindings.rbac.authorization.k8s.io", False),
        ("argosy-executor", "create", "deployments.apps", False),
        ("argosy-cluster-agent", "watch", "pods", True),
        ("argosy-cluster-agent", "list", "events", True),
        ("argosy-cluster-agent", "update", "pods", False),
    ],
)
def test_account_may_do_what_it_needs_and_no_more(
    cluster: KubeApi, account: str, verb: str, resource: str, *, allowed: bool
) -> None:
    """The API server's own answer for the accounts as applied."""
    kind, _, subresource = resource.partition("/")
    who = ("--all-namespaces", f"--as=system:serviceaccount:argosy:{account}")
    try:
        answer = cluster.kubectl("auth", "can-i", verb, kind, f"--subresource={subresource}", *who)
    except BackendUnavailable as refusal:  # kubectl ends with an error for "no"
        answer = str(refusal)
    assert answer.strip().startswith("yes") is allowed, answer

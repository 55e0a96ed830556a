"""Certificates from cert-manager: what the manifests ask for is what the pods mount and what servers know callers by.

cert-manager itself does not run here: a small authority of `argosy certs` signs what it would, and a real API server
checks the manifests against the fields that we use, with the types that cert-manager's documentation gives them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from images.helm import find_helm
from testbed.cluster import KubeApi

from argosy.api.v1 import access_pb2, access_pb2_grpc
from argosy_agent.config import AgentConfig
from argosy_cli.certificates import CertificateText, make_authority
from argosy_client import ArgosyClient, ChannelCredentials
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.access import ANYONE, ClusterPart, Permissions, Principal
from argosy_executor.config import ExecutorConfig
from argosy_runtime.access.guard import CALLER, CallerSettings, Guard
from argosy_runtime.config import load_config
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_sampler.config import SamplerConfig
from argosy_server.config import ServerConfig

pytestmark = pytest.mark.timeout(300)

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
GROUP: Final = "cert-manager.io"
TEXT: Final = {"type": "string", "minLength": 1}
TEXTS: Final = {"type": "array", "items": TEXT}
DURATION: Final = {"type": "string", "pattern": "^[0-9]+h$"}
SPECS: Final[dict[str, dict[str, Any]]] = {
    "Certificate": {
        "required": ["secretName", "issuerRef"],
        "properties": {
            "secretName": TEXT,
            "commonName": {"type": "string", "maxLength": 64},
            "isCA": {"type": "boolean"},
            "uris": TEXTS,
            "dnsNames": TEXTS,
            "ipAddresses": TEXTS,
            "duration": DURATION,
            "renewBefore": DURATION,
            "usages": {
                "type": "array",
                "items": {
                    "enum": ["digital signature", "cert sign", "crl sign", "client auth", "server auth"],
                    "type": "string",
                },
            },
            "privateKey": {
                "type": "object",
                "properties": {
                    "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
                    "size": {"type": "integer"},
                    "rotationPolicy": {"type": "string", "enum": ["Never", "Always"]},
                },
            },
            "issuerRef": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": TEXT, "kind": TEXT, "group": TEXT},
            },
        },
    },
    "Issuer": {
        "properties": {
            "selfSigned": {"type": "object"},
            "ca": {"type": "object", "required": ["secretName"], "properties": {"secretName": TEXT}},
        },
    },
}
"""What we use of cert-manager's kinds."""
SIGNED: Final = frozenset({"ca.crt", "tls.crt", "tls.key"})
"""Keys of a secret that cert-manager fills."""
CONFIGS: Final[dict[str, type[Any]]] = {
    "SERVER": ServerConfig,
    "SAMPLER": SamplerConfig,
    "EXECUTOR": ExecutorConfig,
    "CLUSTER_AGENT": ClusterAgentConfig,
    "AGENT": AgentConfig,
}
WHO = "/argosy.api.v1.AccessService/WhoAmI"
Documents = list[dict[str, Any]]


class WhoAmI(access_pb2_grpc.AccessServiceServicer):
    """Answers who calls."""

    async def WhoAmI(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer the caller's name."""
        return access_pb2.WhoAmIResponse(name=CALLER.get().principal.name)


@pytest.fixture(scope="module")
def cluster(kube_api: KubeApi) -> Iterator[KubeApi]:
    """A cluster that knows the kinds of cert-manager, as far as we use them."""
    kinds = []
    for kind, spec in SPECS.items():
        schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower()}
        kinds.append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{kind.lower()}s.{GROUP}"},
                "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
            }
        )
    kube_api.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(kinds))
    for kind in SPECS:
        kube_api.kubectl("wait", "--for=condition=Established", f"crd/{kind.lower()}s.{GROUP}", "--timeout=30s")
    yield kube_api
    kube_api.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(kinds))


def chart(*values: str) -> str:
    """Return the manifests of the chart with cert-manager."""
    helm = find_helm(lambda _: None)
    flags = [part for value in ("security.certManager.enabled=true", *values) for part in ("--set", value)]
    command = [helm, "template", "argosy", str(DEPLOY / "helm/argosy"), "-n", "argosy", "--kube-version", "1.33.0"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def overlays(cluster: KubeApi, folder: Path, suffix: str = "") -> str:
    """Return the manifests of overlays with the components for cert-manager."""
    made = []
    for base, component in (("server-events", "server"), ("cluster", "cluster"), ("cluster-agent", "cluster")):
        (folder / base).mkdir()
        deploy = os.path.relpath(DEPLOY / "kustomize", folder / base)
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": "argosy",
            "nameSuffix": suffix,
            "resources": [f"{deploy}/{base}"],
            "components": [f"{deploy}/cert-manager-{component}"],
        }
        (folder / base / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
        made.append(cluster.kubectl("kustomize", str(folder / base)))
    return "\n---\n".join(made)


@pytest.fixture(scope="module", params=["chart", "chart, agent", "chart, agent of a cluster agent", "kustomize"])
def documents(request: pytest.FixtureRequest, cluster: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Documents:
    """The manifests of an installation with cert-manager."""
    values = {
        "chart": (),
        "chart, agent": ("cluster.agent.enabled=true",),
        "chart, agent of a cluster agent": ("cluster.agent.enabled=true", "cluster.combined=true"),
    }
    way = request.param
    text = chart(*values[way]) if way in values else overlays(cluster, tmp_path_factory.mktemp("overlays"))
    return [one for one in yaml.safe_load_all(text) if one]


def certificates(documents: Documents) -> dict[str, dict[str, Any]]:
    """Return what is asked of cert-manager for processes, by the secret that gets it."""
    specs = [one["spec"] for one in documents if one["kind"] == "Certificate"]
    return {spec["secretName"]: spec for spec in specs if not spec.get("isCA")}


def containers(documents: Documents) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Give (variables, volumes and mounts by path) of each service."""
    maps = {one["metadata"]["name"]: one["data"] for one in documents if one["kind"] == "ConfigMap"}

    def value(entry: dict[str, Any]) -> str:
        named = entry.get("valueFrom", {}).get("configMapKeyRef")
        return str(maps[named["name"]][named["key"]] if named else entry.get("value", "elsewhere"))

    for document in documents:
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            volumes = {one["name"]: one for one in pod["volumes"]}
            mounts = {one["mountPath"]: volumes[one["name"]] for one in container["volumeMounts"]}
            yield {one["name"]: value(one) for one in container["env"]}, mounts


def test_api_server_takes_what_is_asked_of_cert_manager(cluster: KubeApi, documents: Documents) -> None:
    """No field is unknown, pods' volumes included, and each has the type that it should have; issuers are there."""
    asked = [one for one in documents if one["apiVersion"] == f"{GROUP}/v1"]
    assert {one["kind"] for one in asked} == {"Certificate", "Issuer"}
    applied = [*asked, *(one for one in documents if one["kind"] == "Deployment")]
    here = [{**one, "metadata": {**one["metadata"], "namespace": "default"}} for one in applied]
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(here))
    issuers = {one["metadata"]["name"]: one["spec"] for one in asked if one["kind"] == "Issuer"}
    (authority,) = (one["spec"] for one in asked if one["spec"].get("isCA"))
    assert "selfSigned" in issuers[authority["issuerRef"]["name"]]
    for spec in certificates(asked).values():
        assert issuers[spec["issuerRef"]["name"]] == {"ca": {"secretName": authority["secretName"]}}


def test_services_load_what_the_manifests_say(documents: Documents) -> None:
    """No variable is misspelt, and those of certificates come in pairs."""
    for variables, _ in containers(documents):
        own = {name: value for name, value in variables.items() if name.startswith("ARGOSY_")}
        (prefix,) = (prefix for prefix in CONFIGS if all(name.startswith(f"ARGOSY_{prefix}_") for name in own))
        credentials = load_config(CONFIGS[prefix], [], own).credentials
        assert (credentials.certificate_file, credentials.key_file) == tuple(
            f"/etc/argosy/identity/{name}" for name in ("tls.crt", "tls.key")
        )


def test_every_file_that_a_service_reads_is_a_key_that_somebody_fills(documents: Documents) -> None:
    """cert-manager fills certificates, keys and the authority; tokens come from secrets that it does not touch."""
    signed = certificates(documents)
    drawn = {one["metadata"]["name"]: set(one["data"]) for one in documents if one["kind"] == "Secret"}
    of_script = {"argosy-server": {"token", "tokens.yaml", "encryption-keys"}, "argosy-cluster": {"token"}}
    of_script["argosy-permits"] = {*SIGNED, "tokens.yaml"}  # the components leave the port of permits as it was
    own = drawn or of_script
    if drawn:
        assert not any(keys & SIGNED for keys in drawn.values())
    mounted = set()
    for variables, mounts in containers(documents):
        for name, path in variables.items():
            folder, _, key = path.rpartition("/")
            if not folder.startswith("/etc/argosy/"):
                continue
            if "projected" not in mounts[folder]:
                assert key in own[mounts[folder]["secret"]["secretName"]], name
                continue
            sources = [one["secret"] for one in mounts[folder]["projected"]["sources"]]
            (secret,) = (one["name"] for one in sources for item in one["items"] if item["path"] == item["key"] == key)
            assert key in (SIGNED if secret in signed else own[secret]), name
            mounted |= {one["name"] for one in sources} & set(signed)
    assert mounted == set(signed)


async def test_servers_and_samplers_are_known_by_the_names_that_are_dialled(documents: Documents) -> None:
    """What a caller expects in the certificate of whom it dials stands in one."""
    names = {name for spec in certificates(documents).values() for name in spec.get("dnsNames", ())}
    for variables, _ in containers(documents):
        for variable, value in variables.items():
            if variable.endswith("_CREDENTIALS_SERVER_NAME"):
                assert value in names
            if variable.endswith(("_SERVER_ADDRESSES", "_SAMPLER_ADDRESS")):
                assert {address.rpartition(":")[0] for address in value.split(",")} <= names


async def test_who_was_certified_is_known_by_its_certificate(documents: Documents, tmp_path: Path) -> None:
    """Signed as it is asked for, each certificate names the server, or the cluster, to a server that asks for one."""
    authority = make_authority(tmp_path / "authority", installation="argosy", days=30)
    found: dict[str, tuple[Path, Path]] = {}
    for secret, spec in certificates(documents).items():
        hosts = (*spec.get("dnsNames", ()), *spec.get("ipAddresses", ()))
        (uri,) = spec["uris"]
        found[secret] = authority.issue(CertificateText(name=secret, uri=uri, hosts=hosts, days=30))
        # `argosy certs` gives these for the same names.
        assert set(spec["usages"]) == {"digital signature", "client auth", *(["server auth"] if hosts else [])}
        assert spec["privateKey"]["rotationPolicy"] == "Always"
    signer = str(tmp_path / "authority" / "authority.pem")
    seen: list[Principal] = []

    async def permissions_of(principal: Principal) -> Permissions:
        seen.append(principal)
        return Permissions()

    certificate, key = map(str, found["argosy-server-tls"])
    settings = GrpcSettings(
        listen="127.0.0.1:0", certificate_file=certificate, key_file=key, client_authority_file=signer
    )
    server = GrpcServer(settings, guard=Guard(CallerSettings(), rules={WHO: ANYONE}, permissions_of=permissions_of))
    server.add(access_pb2_grpc.add_AccessServiceServicer_to_server, WhoAmI(), "argosy.api.v1.AccessService")
    await server.start()
    try:
        for secret, files in found.items():
            credentials = ChannelCredentials(
                authority_file=signer,
                server_name="argosy-server",
                certificate_file=str(files[0]),
                key_file=str(files[1]),
            )
            async with ArgosyClient(server.address, credentials=credentials) as client:
                name = (await client.who_am_i()).name
            parts = {"argosy-permits-tls": ClusterPart.SAMPLER, "argosy-agent-tls": ClusterPart.AGENT}
            if secret == "argosy-server-tls":
                assert (name, seen[-1].is_server) == ("server", True)
            else:
                assert (name, seen[-1].cluster, seen[-1].part) == ("kubernetes", "kubernetes", parts.get(secret))
    finally:
        await server.stop(0)


def test_overlay_with_a_suffix_still_names_its_issuer(cluster: KubeApi, tmp_path: Path) -> None:
    """A second installation in the namespace has an authority of its own."""
    documents = [one for one in yaml.safe_load_all(overlays(cluster, tmp_path, "-second")) if one]
    issuers = {one["metadata"]["name"] for one in documents if one["kind"] == "Issuer"}
    assert issuers == {"argosy-second", "argosy-self-signed-second"}
    (server,) = (spec for name, spec in certificates(documents).items() if name == "argosy-server-tls")
    assert server["issuerRef"]["name"] == "argosy-second"


def test_cluster_alone_needs_an_issuer_of_the_servers_authority() -> None:
    """One that it made itself would sign what no server believes."""
    helm = find_helm(lambda _: None)
    values = "security.certManager.enabled=true,server.enabled=false,cluster.servers={argosy.example.org:50051}"
    command = [helm, "template", "x", str(DEPLOY / "helm/argosy"), "--kube-version", "1.33.0", "--set", values]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "security.certManager.issuer.name is empty" in refused.stderr
    done = subprocess.run(
        [*command, "--set", "security.certManager.issuer.name=west,security.certManager.issuer.kind=ClusterIssuer"],
        capture_output=True,
        text=True,
        check=True,
    )
    made = [one for one in yaml.safe_load_all(done.stdout) if one and one["apiVersion"] == f"{GROUP}/v1"]
    assert [one["spec"]["issuerRef"] for one in made] == [{"name": "west", "kind": "ClusterIssuer", "group": GROUP}]

"""Addresses of clusters, and credentials behind them."""

from __future__ import annotations

import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_kube import open_cluster
from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource, goes_direct
from argosy_kube.kubernetes.cluster import KubernetesCluster
from argosy_kube.simulated.client import SimulatedCluster
from argosy_testkit.tls_endpoint import Certificates


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1:99", SimulatedCluster),
        ("simulated:cluster.test:99", SimulatedCluster),
        ("simulated:unix:/run/c", SimulatedCluster),
        ("unix:/run/c", SimulatedCluster),
        ("kubernetes", KubernetesCluster),
        ("kubernetes:#other", KubernetesCluster),
        ("kubernetes:{home}/config", KubernetesCluster),
        ("kubernetes:{home}/config#other", KubernetesCluster),
        ("kubernetes:{home}/none:{home}/config", KubernetesCluster),
        ("kubernetes:in-cluster", KubernetesCluster),
    ],
)
def test_address_says_which_cluster(address: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is connected to, or read, before it is needed."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    (tmp_path / "config").write_text("nonsense", encoding="utf-8")
    assert type(open_cluster(address.format(home=tmp_path), installation="one")) is kind


@pytest.mark.parametrize(
    ("address", "variable", "missing"),
    [
        ("kubernetes:{home}/none", "", "{home}/none"),
        ("kubernetes:{home}/none#other", "{home}/config", "{home}/none"),
        ("kubernetes:{home}/config/none", "", "{home}/config/none"),
        ("kubernetes", "{home}/a:{home}/b", "{home}/a or {home}/b"),
        ("kubernetes", "", "~/.kube/config"),
    ],
    ids=["named", "context", "below a file", "variable", "default"],
)
def test_kubeconfig_that_is_not_there_is_a_wrong_address(
    address: str, *, variable: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told at the start, with the path, rather than tried for ever."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBECONFIG", variable.format(home=tmp_path))
    (tmp_path / "config").write_text("", encoding="utf-8")
    with pytest.raises(InvalidRequest) as refusal:
        open_cluster(address.format(home=tmp_path), installation="one")
    assert refusal.value.message.endswith(f"names a kubeconfig, but there is no file {missing.format(home=tmp_path)}")


async def test_kubeconfig_that_went_away_is_unavailable_and_named(tmp_path: Path) -> None:
    """One that is there at the start may be written anew while we run."""
    with pytest.raises(BackendUnavailable, match=f"there is no file {tmp_path}/config"):
        await Credentials(CredentialSource(path=str(tmp_path / "config"))).endpoint()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":99",
        "host:port",
        "host:0",
        "host:70000",
        "simulated:",
        "unix:",
        "kubernetes:",
        "kubernetes:/x#",
    ],
)
def test_other_addresses_are_refused_with_what_to_write(address: str) -> None:
    """The message shows every form."""
    with pytest.raises(InvalidRequest, match="write simulated:HOST:PORT"):
        open_cluster(address, installation="one")


def write_kubeconfig(path: Path, user: dict[str, Any], **cluster: str) -> Path:
    """Write a kubeconfig with two contexts."""
    contexts = [{"name": name, "context": {"cluster": name, "user": "u"}} for name in ("first", "second")]
    clusters = [
        {"name": name, "cluster": {"server": f"http://{host}:8080", **cluster}}
        for name, host in (("first", "127.0.0.1"), ("second", "api.test"))
    ]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "users": [{"name": "u", "user": user}],
        "contexts": contexts,
        "current-context": "first",
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


async def test_context_is_taken_and_loopback_needs_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment is for others than this machine."""
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "")
    path = str(write_kubeconfig(tmp_path / "config", {"token": "t"}))
    first = await Credentials(CredentialSource(path=path)).endpoint()
    second = await Credentials(CredentialSource(path=path, context="second")).endpoint()
    assert (first.url, first.proxy) == ("http://127.0.0.1:8080", None)
    assert (second.url, second.proxy) == ("http://api.test:8080", "http://proxy.test:3128")


async def test_exec_plugin_is_asked_again_when_its_token_ends(tmp_path: Path) -> None:
    """Each run of the plugin gives another token, good for no time at all."""
    counter = tmp_path / "count"
    program = tmp_path / "plugin.py"
    program.write_text(
        f"""import json, pathlib
path = pathlib.Path({str(counter)!r})
number = int(path.read_text()) + 1 if path.exists() else 1
path.write_text(str(number))
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {{"token": f"token-{{number}}", "expirationTimestamp": "2000-01-01T00:00:00Z"}}}}))
""",
        encoding="utf-8",
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(program)],
        "interactiveMode": "Never",
    }
    path = write_kubeconfig(tmp_path / "config", {"exec": plugin})
    now_s = 0.0
    credentials = Credentials(CredentialSource(path=str(path)), monotonic=lambda: now_s)
    first = await credentials.authorization()
    assert await credentials.authorization() == first
    now_s = 100.0
    second = await credentials.authorization()
    assert first is not None
    assert second is not None
    assert first.startswith("Bearer token-")
    assert second != first


async def test_service_account_token_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of service accounts are replaced in their file while we run."""
    from kubernetes.config import incluster_config

    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("one\n", encoding="utf-8")
    ca.write_text("none", encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    with pytest.raises(BackendUnavailable, match="service account"):
        await Credentials(CredentialSource(in_cluster=True)).endpoint()  # that certificate is none
    ca.write_text(_any_authority(), encoding="utf-8")
    credentials = Credentials(CredentialSource(in_cluster=True))
    assert (await credentials.endpoint()).url == "https://10.0.0.1:443"
    assert await credentials.authorization() == "bearer one"
    token.write_text("two", encoding="utf-8")
    await credentials.renew(credentials.generation)
    assert await credentials.authorization() == "bearer two"


def _any_authority() -> str:
    """Return certificate authorities."""
    import certifi

    return certifi.contents()


@pytest.mark.parametrize("content", ["", "a: [", "{}"], ids=["empty", "no-yaml", "no-clusters"])
async def test_bad_kubeconfig_is_unavailable_and_named(tmp_path: Path, content: str) -> None:
    """The message says which file; it may be mended while we run."""
    path = tmp_path / "config"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BackendUnavailable, match="kubeconfig"):
        await Credentials(CredentialSource(path=str(path))).endpoint()


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("", "https://10.1.2.3:6443", False),
        ("", "https://127.0.0.1:6443", True),
        ("", "https://[::1]:6443", True),
        ("*", "https://api.test", True),
        ("api.test", "https://api.test:6443", True),
        ("api.test", "https://x.api.test", True),
        ("api.test", "https://myapi.test", False),
        (".test", "https://api.test", True),
        ("*.test", "https://api.test", True),
        ("other, API.test ", "https://api.test", True),
        ("10.0.0.0/8", "https://10.1.2.3:6443", True),
        ("10.0.0.0/16", "https://10.1.2.3:6443", False),
        ("fd00::/8", "https://[fd00::5]:6443", True),
        ("10.0.0.0/x,10.1.2.3", "https://10.1.2.3", True),
        ("fd00::5", "https://[fd00::5]:6443", True),
        ("api.test:6443", "https://api.test:6443", True),
        ("api.test:443", "https://api.test", True),
        ("api.test:443", "https://api.test:6443", False),
        ("[fd00::5]:6443", "https://[fd00::5]:6443", True),
    ],
)
def test_no_proxy_names_hosts_domains_networks_and_ports(no_proxy: str, url: str, *, direct: bool) -> None:
    """Every form that other programs take is taken here."""
    assert goes_direct(url, no_proxy) is direct


async def test_authority_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    """A cluster whose authority is rotated is reached again as soon as the new one is in the file."""
    old, new = Certificates(tmp_path, "old"), Certificates(tmp_path, "new")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*new.issue("localhost"))

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"uid": "7e1b2a3c-0000-0000-0000-000000000001"}})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0, ssl_context=context)
    await site.start()
    try:
        port = runner.addresses[0][1]
        trusted = tmp_path / "trusted.crt"
        trusted.write_bytes(old.authority.read_bytes())
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "clusters": [
                {
                    "name": "c",
                    "cluster": {
                        "server": f"https://localhost:{port}", "certificate-authority": str(trusted),
                    },
                }
            ],
        }  # fmt: skip
        path = tmp_path / "config"
        path.write_text(json.dumps(config), encoding="utf-8")
        cluster = open_cluster(f"kubernetes:{path}", installation="one")
        try:
            with pytest.raises(BackendUnavailable, match="certificate"):
                await cluster.cluster_uid()
            trusted.write_bytes(new.authority.read_bytes())
            assert await cluster.cluster_uid() == "7e1b2a3c-0000-0000-0000-000000000001"
        finally:
            await cluster.close()
    finally:
        await runner.cleanup()

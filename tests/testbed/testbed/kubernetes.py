"""A Kubernetes control plane: etcd, API server, controller manager, scheduler and kubectl of one binary.

The binary is built from the Go modules named in `control_plane/go.mod`, once per content of that folder and Go release.
Authorization is RBAC; the token in the kubeconfig is a cluster administrator's.
"""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from argosy_core.errors import BackendUnavailable
from argosy_local.processes import free_ports
from testbed import go_programs
from testbed.cache import Tell
from testbed.programs import Program

__all__ = ["BINARY_VARIABLE", "ControlPlane", "ControlPlaneOptions", "build"]

BINARY_VARIABLE: Final = "ARGOSY_TESTBED_CONTROL_PLANE"
"""Variable that names a control plane binary that is used as it is."""

SOURCE: Final = Path(__file__).resolve().parent.parent / "control_plane"
"""Folder of the binary's source."""
_CLUSTER_ROLES: Final = {"controllers": "system:kube-controller-manager", "scheduler": "system:kube-scheduler"}
# Controllers of clouds and of node networks have nothing to do here.
_CONTROLLERS: Final = (
    "*,-node-ipam-controller,-node-route-controller,-service-lb-controller,-cloud-node-lifecycle-controller"
)


def _quiet(_: str) -> None:
    """Tell nobody."""


def build(tell: Tell = _quiet) -> Path:
    """Return the path of the binary, built first if it is not there.

    From nothing that takes some minutes and 4 GB of disk for Go's own caches; with those it takes seconds.

    Raises:
        NotAllowedNow: There is no Go, or the named binary does not exist.
        BackendUnavailable: It cannot be built; the message ends with what the compiler said.
    """
    version = go_programs.module_version(SOURCE, "k8s.io/kubernetes")
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return go_programs.build(
        SOURCE,
        f"control-plane-{version}",
        binary_variable=BINARY_VARIABLE,
        linked={f"{package}.gitVersion": version for package in packages},
        tell=tell,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneOptions:
    """How a control plane is started."""

    has_controllers: bool = True
    """Run the controller manager: namespaces end, quotas count, service accounts and their tokens are made."""
    has_scheduler: bool = False
    """Run kube-scheduler from the start; `start_scheduler` starts it later."""
    node_grace_s: float = 40.0
    """Without a heartbeat for so long, a node counts as unreachable, seconds."""
    is_durable: bool = False
    """Have etcd sync every write to the disk."""
    is_fair: bool = False
    """Share the API server out by priority and fairness."""
    is_tied: bool = True
    """It ends with this process."""
    prefix: tuple[str, ...] = ()
    """Words before etcd's and the API server's command lines, as taskset and its arguments."""
    server_flags: tuple[str, ...] = ()
    """Further flags of the API server."""
    watch_cache_sizes: tuple[str, ...] = field(default=())
    """Sizes of watch caches, as `pods#100`."""


class ControlPlane:
    """A control plane in a directory of its own.

    Args:
        directory: Its directory; the caller's to remove.
        options: How to start it.
        tell: Is told what a build does.
    """

    def __init__(self, directory: Path, options: ControlPlaneOptions | None = None, *, tell: Tell = _quiet) -> None:
        """Choose ports, write keys and credentials; nothing runs yet."""
        self.directory = directory
        """Keys, data and logs."""
        self.options = options or ControlPlaneOptions()
        """How it is started."""
        self.binary = build(tell)
        """The binary."""
        etcd_port, port = free_ports(2)
        self.etcd_url = f"http://127.0.0.1:{etcd_port}"
        """URL of etcd."""
        self.url = f"https://127.0.0.1:{port}"
        """URL of the API server."""
        self.token = secrets.token_hex(16)
        """Token of a cluster administrator."""
        self.ca = directory / "pki" / "ca.crt"
        """Certificate authority of the API server and of the kubelets' server."""
        self.kubeconfig = directory / "kubeconfig"
        """Kubeconfig of the administrator."""
        self._write_credentials()
        make = self._program
        self.etcd = make("etcd", *self._etcd_flags(), prefix=self.options.prefix)
        """etcd."""
        self.api_server = make("kube-apiserver", *self._server_flags(port), prefix=self.options.prefix)
        """The API server."""
        self.controllers = make("kube-controller-manager", *self._controller_flags())
        """The controller manager."""
        self.scheduler = make("kube-scheduler", *self._scheduler_flags())
        """kube-scheduler."""

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self, *, timeout_s: float = 120.0) -> None:
        """Start what does not run and wait until pods can be created.

        Raises:
            BackendUnavailable: It did not come up.
        """
        self.etcd.start()
        self.api_server.start()
        self.api_server.await_ready(self.is_ready, timeout_s=timeout_s)
        if self.options.has_controllers:
            self.controllers.start()
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self.controllers.await_ready(lambda: self.get(account) is not None, timeout_s=timeout_s)
        if self.options.has_scheduler:
            self.scheduler.start()

    def stop(self) -> None:
        """End everything; its state stays in the directory."""
        for program in (self.scheduler, self.controllers):
            program.kill()  # they hold nothing that would be lost
        self.api_server.kill()
        self.etcd.stop(grace_s=5.0)

    def kill(self) -> None:
        """Kill the API server; etcd keeps what it acknowledged."""
        self.api_server.kill()

    def restart(self, *, timeout_s: float = 120.0) -> None:
        """Kill the API server and start it again on its port."""
        self.kill()
        self.start(timeout_s=timeout_s)

    def start_scheduler(self) -> None:
        """Start kube-scheduler."""
        self.scheduler.start()

    # --- asking ---------------------------------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """Version of the API server, from itself."""
        found = self.get("/version")
        return str(found["gitVersion"]) if found else "unknown"

    @property
    def etcd_version(self) -> str:
        """Version of etcd, from itself."""
        done = subprocess.run([str(self.binary), "etcd", "--version"], check=False, capture_output=True, text=True)
        return done.stdout.partition("etcd Version: ")[2].split("\n")[0] or "unknown"

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs, whether they run or not."""
        return (self.etcd, self.api_server, self.controllers, self.scheduler)

    def is_ready(self) -> bool:
        """Return whether the API server says that it is ready."""
        with suppress(OSError):
            return self._ask("/readyz") == b"ok"
        return False

    def get(self, path: str) -> dict[str, Any] | None:
        """Return what the API server answers to a GET as an object, None if it does not or refuses."""
        try:
            found = json.loads(self._ask(path))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60.0) -> str:
        """Run kubectl as the administrator and return its output.

        Raises:
            BackendUnavailable: It ended with an error; the message is its own.
        """
        done = subprocess.run(
            [str(self.binary), "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            check=False,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if done.returncode != 0:
            raise BackendUnavailable(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _ask(self, path: str) -> bytes:
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})
        context = ssl.create_default_context(cafile=str(self.ca))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=5) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            error.close()
            raise

    # --- parts ----------------------------------------------------------------------------------------------------

    def _program(self, name: str, *flags: str, prefix: tuple[str, ...] = ()) -> Program:
        log = self.directory / "logs" / f"{name}.log"
        return Program(name, [*prefix, str(self.binary), name, *flags], log=log, is_tied=self.options.is_tied)

    def _write_credentials(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        pki = self.ca.parent
        done = subprocess.run(
            [str(self.binary), "certificates", str(pki)], check=False, capture_output=True, text=True, timeout=60
        )
        if done.returncode != 0:
            raise BackendUnavailable(f"no certificates: {done.stderr.strip()}")
        rows = [f"{self.token},admin,admin,system:masters"]
        self._write_kubeconfig(self.kubeconfig, self.token)
        for name, user in _CLUSTER_ROLES.items():
            token = secrets.token_hex(16)
            # The scheduler's own role suffices; the controllers act as many accounts, so theirs is the administrator's.
            rows.append(f"{token},{user},{name}{',system:masters' if name == 'controllers' else ''}")
            self._write_kubeconfig(self.directory / f"{name}.kubeconfig", token)
        (pki / "tokens.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    def _write_kubeconfig(self, path: Path, token: str) -> None:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "user"}}],
            "current-context": "here",
        }
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        path.chmod(0o600)

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--log-level=warn",
            f"--quota-backend-bytes={8 << 30}",
            *([] if self.options.is_durable else ["--unsafe-no-fsync"]),
        ]

    def _server_flags(self, port: int) -> list[str]:
        pki = self.ca.parent
        issuer = "https://kubernetes.default.svc"
        return [
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--cert-dir={pki}",
            f"--service-account-issuer={issuer}",
            f"--service-account-signing-key-file={pki / 'service-account.key'}",
            f"--service-account-key-file={pki / 'service-account.key'}",
            f"--token-auth-file={pki / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--allow-privileged",
            "--service-cluster-ip-range=10.0.0.0/16",
            # Nobody reaches the API server under a service's address, and a loopback address may not be advertised.
            "--endpoint-reconciler-type=none",
            "--advertise-address=192.0.2.1",
            f"--kubelet-certificate-authority={self.ca}",
            "--kubelet-preferred-address-types=InternalIP",
            "--event-ttl=10m",
            "--profiling=false",
            f"--enable-priority-and-fairness={str(self.options.is_fair).lower()}",
            "--max-requests-inflight=1000",
            "--max-mutating-requests-inflight=1000",
            # Without controllers no service account is ever made, and every pod would be refused for want of one.
            *([] if self.options.has_controllers else ["--disable-admission-plugins=ServiceAccount"]),
            *(f"--watch-cache-sizes={size}" for size in self.options.watch_cache_sizes),
            *self.options.server_flags,
        ]

    def _controller_flags(self) -> list[str]:
        pki = self.ca.parent
        return [
            f"--kubeconfig={self.directory / 'controllers.kubeconfig'}",
            f"--controllers={_CONTROLLERS}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            f"--service-account-private-key-file={pki / 'service-account.key'}",
            f"--root-ca-file={self.ca}",
            f"--node-monitor-grace-period={self.options.node_grace_s:g}s",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]

    def _scheduler_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.directory / 'scheduler.kubeconfig'}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--kube-api-qps=5000",
            "--kube-api-burst=10000",
        ]

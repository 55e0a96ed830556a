"""A cluster for tests: a real control plane, and a fake kubelet that plays all its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy_testkit.fake_kubelet import KubeletProcess
from testbed.cache import Tell
from testbed.kubernetes import ControlPlane, ControlPlaneOptions

__all__ = ["KubeApi"]


def _quiet(_: str) -> None:
    """Tell nobody."""


class KubeApi:
    """A real API server with nodes that a fake kubelet plays.

    Args:
        directory: Directory of its own; the caller's to remove.
        options: How the control plane is started.
        heartbeat_s: Time between a node's heartbeats, seconds; 0 for none.
        kubelet_prefix: Words before the kubelet's command line, as taskset and its arguments.
        tell: Is told what a build does.
    """

    def __init__(
        self,
        directory: Path,
        options: ControlPlaneOptions | None = None,
        *,
        heartbeat_s: float = 10.0,
        kubelet_prefix: Sequence[str] = (),
        tell: Tell = _quiet,
    ) -> None:
        """Prepare everything; nothing runs yet."""
        self.control_plane = ControlPlane(directory, options, tell=tell)
        """etcd, API server, controller manager and scheduler."""
        pki = self.control_plane.ca.parent
        self.kubelet = KubeletProcess(
            url=self.url,
            token=self.token,
            ca=self.ca,
            certificate=pki / "kubelet.crt",
            key=pki / "kubelet.key",
            heartbeat_s=heartbeat_s,
            log=directory / "logs" / "kubelet.log",
            prefix=kubelet_prefix,
        )
        """The fake kubelet of all nodes."""

    @property
    def url(self) -> str:
        """URL of the API server."""
        return self.control_plane.url

    @property
    def token(self) -> str:
        """Token of a cluster administrator."""
        return self.control_plane.token

    @property
    def ca(self) -> Path:
        """Certificate authority of the API server."""
        return self.control_plane.ca

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.control_plane.kubeconfig

    @property
    def version(self) -> str:
        """Version of the API server, from itself."""
        return self.control_plane.version

    def start(self) -> None:
        """Start what does not run."""
        self.control_plane.start()
        self.kubelet.start()

    def stop(self) -> None:
        """End everything."""
        self.kubelet.stop()
        self.control_plane.stop()

    def kill(self) -> None:
        """Kill the API server; etcd and the kubelet go on."""
        self.control_plane.kill()

    def restart(self) -> None:
        """Kill the API server and start it again on its port."""
        self.control_plane.restart()

    def add_nodes(
        self,
        count: int,
        *,
        prefix: str = "node",
        cpu: str = "16",
        memory: str = "64Gi",
        labels: Mapping[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Add nodes that are ready at once; return their names, `PREFIX-0` and so on.

        Args:
            count: How many.
            prefix: Begin of their names; other nodes of the session have other prefixes.
            cpu: Allocatable CPU of each, as Kubernetes writes it.
            memory: Allocatable memory of each.
            labels: Labels beside those that a kubelet sets itself.
        """
        return self.kubelet.add_nodes(count, prefix=prefix, cpu=cpu, memory=memory, labels=labels)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return its output.

        Raises:
            BackendUnavailable: It ended with an error; the message is its own.
        """
        return self.control_plane.kubectl(*arguments, stdin=stdin)

"""Opening a cluster by its address.

Source: `argosy_kube.port`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from argosy_core.autoscale.policies import read_policy
from argosy_core.errors import InvalidRequest
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.meter import NO_METER, ApiMeter
from argosy_kube.notes_port import PodNotes
from argosy_kube.port import Cluster
from argosy_kube.scaler_port import Scaler
from argosy_kube.simulated.client import SimulatedCluster
from argosy_kube.simulated.scaler import SimulatedScaler
from argosy_kube.simulated.shared import SharedCluster

if TYPE_CHECKING:
    from argosy_kube.kubernetes.api.credentials import CredentialSource
    from argosy_kube.kubernetes.token_reviews import TokenReviews

__all__ = ["credential_source", "open_cluster", "open_pod_notes", "open_scaler", "open_token_reviews"]

_FORMS: Final = (
    "write simulated:HOST:PORT, simulated:unix:PATH, kubernetes (default kubeconfig), kubernetes:PATH, "
    "kubernetes:PATH#CONTEXT or kubernetes:in-cluster"
)
_KUBERNETES: Final = "kubernetes"
_SIMULATED: Final = "simulated:"
_MAX_PORT: Final = 65_535


def open_cluster(
    address: str,
    *,
    installation: str,
    call_timeout_s: float = 30.0,
    settings: KubernetesSettings | None = None,
    is_shared: bool = False,
    meter: ApiMeter = NO_METER,
) -> Cluster:
    """Return the cluster that an address names; connections are made when they are needed.

    Args:
        address: `simulated:HOST:PORT`, `simulated:unix:PATH` or bare `HOST:PORT` or `unix:PATH` for a simulated
            cluster; `kubernetes` for the default kubeconfig and context, `kubernetes:PATH` for a kubeconfig,
            `kubernetes:PATH#CONTEXT` for a context of it (`kubernetes:#CONTEXT` of the default one), and
            `kubernetes:in-cluster` for the service account of the pod this runs in.
        installation: Whose objects are ours.
        call_timeout_s: How long one call may take, seconds; watches may last longer.
        settings: How a Kubernetes API server is used.
        is_shared: Somebody in this process reads all pods and somebody our objects: each kind is watched once for both.
        meter: Whom calls to an API server are told to.

    Raises:
        InvalidRequest: The address has none of these forms, or there is no such kubeconfig.
    """
    if address == _KUBERNETES or address.startswith(f"{_KUBERNETES}:"):
        # What Kubernetes needs is loaded only where there is one.
        from argosy_kube.kubernetes.cluster import KubernetesCluster

        return KubernetesCluster(
            credential_source(address),
            installation=installation,
            call_timeout_s=call_timeout_s,
            settings=settings,
            shares_pods=is_shared,
            meter=meter,
        )
    simulated = SharedCluster if is_shared else SimulatedCluster
    return simulated(_simulated_place(address), installation=installation, timeout_s=call_timeout_s)


def open_scaler(
    address: str,
    *,
    installation: str,
    metrics: str,
    settings: KubernetesSettings | None = None,
    meter: ApiMeter = NO_METER,
    cgroups: tuple[str, str] = ("", ""),
) -> Scaler:
    """Return what an agent resizes pods with, by the address of their cluster; its forms are those of `open_cluster`.

    Args:
        address: Where the cluster is.
        installation: Whose pods.
        metrics: Where a Kubernetes tells what pods use: a value of `MetricsSource`, or `cgroup`; simulated
            clusters tell it.
        settings: How a Kubernetes API server is used.
        meter: Whom calls to an API server are told to.
        cgroups: Node on which this process runs and where its cgroups are mounted, where metrics are `cgroup`: its
            pods are all that is resized then.

    Raises:
        InvalidRequest: The address has none of these forms, there is no such kubeconfig, or cgroups are to be read
            and no node is named.
    """
    if not address.startswith(_KUBERNETES):
        return SimulatedScaler(_simulated_place(address), installation=installation, read_policy=read_policy)
    from argosy_kube.kubernetes.scaling.cgroups import NodeCgroups
    from argosy_kube.kubernetes.scaling.scaler import MetricsSource, PodScaler

    if metrics == "cgroup" and not cgroups[0]:
        raise InvalidRequest("metrics: cgroup is of one node only; say as `node` on which this agent runs")

    return PodScaler(
        credential_source(address),
        installation=installation,
        read_policy=read_policy,
        settings=settings,
        meter=meter,
        metrics=NodeCgroups(cgroups[0], Path(cgroups[1])) if metrics == "cgroup" else MetricsSource(metrics),
    )


def open_pod_notes(address: str, *, settings: KubernetesSettings | None = None, meter: ApiMeter = NO_METER) -> PodNotes:
    """Return what notes permits on pods, by the address of their cluster.

    Args:
        address: That of a Kubernetes; its forms are those of `open_cluster`.
        settings: How the API server is used.
        meter: Whom calls to it are told to.

    Raises:
        InvalidRequest: The address is not that of a Kubernetes, or there is no such kubeconfig.
    """
    if not address.startswith(_KUBERNETES):
        raise InvalidRequest("permits.durable needs a Kubernetes: a simulated cluster keeps no notes on its pods")
    from argosy_kube.kubernetes.scaling.notes import KubernetesNotes

    return KubernetesNotes(credential_source(address), settings=settings, meter=meter)


def open_token_reviews(address: str, *, timeout_s: float = 5.0) -> TokenReviews:
    """Return what says whose the tokens of service accounts are, by the address of their cluster.

    Args:
        address: That of a Kubernetes; its forms are those of `open_cluster`.
        timeout_s: How long a review may take.

    Raises:
        InvalidRequest: The address is not that of a Kubernetes, or there is no such kubeconfig.
    """
    from argosy_kube.kubernetes.token_reviews import TokenReviews

    return TokenReviews(credential_source(address), timeout_s=timeout_s)


def _simulated_place(address: str) -> str:
    """Return where a simulated cluster listens."""
    place = address.removeprefix(_SIMULATED)
    if place.startswith("unix:"):
        if place == "unix:":
            raise InvalidRequest(f"cluster address {address!r} names no path; {_FORMS}")
    else:
        host, _, port = place.rpartition(":")
        if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) <= _MAX_PORT:
            raise InvalidRequest(f"cluster address {address!r} is none; {_FORMS}")
    return place


def credential_source(address: str) -> CredentialSource:
    """Return where the credentials are of the Kubernetes that an address names; its forms are those of `open_cluster`.

    Raises:
        InvalidRequest: The address is not that of a Kubernetes, or there is no such kubeconfig.
    """
    from argosy_kube.kubernetes.api.credentials import CredentialSource

    place = address.removeprefix(_KUBERNETES).removeprefix(":")
    if address.endswith(":") or not address.startswith(_KUBERNETES):
        raise InvalidRequest(f"cluster address {address!r} names no kubeconfig; {_FORMS}")
    path, hash_sign, context = place.partition("#")
    if hash_sign and not context:
        raise InvalidRequest(f"cluster address {address!r} names no context behind '#'; {_FORMS}")
    is_inside = place == "in-cluster"
    source = CredentialSource(in_cluster=True) if is_inside else CredentialSource(path=path, context=context)
    if missing := source.missing_files():
        raise InvalidRequest(f"cluster address {address!r} names a kubeconfig, but there is no file {missing}")
    return source

"""Settings of the Kubernetes adapter; a section of the configuration of executor and sampler.

Source: design section 5, "Sync"; section 2 ("kube").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.findings import is_dns_label

__all__ = ["MOST_NAMESPACES", "BindingMode", "KubernetesSettings"]

MOST_NAMESPACES: Final = 64
"""Namespaces that may be named: each costs a watch of every kind in use, and a list of every kind at each relist."""

BindingMode = Literal["node-name", "subresource", "affinity"]
"""How a pod gets the node that was decided: its name in the pod as created; a binding after the creation; or a node
affinity, so that kube-scheduler binds it (needed where volumes wait for their first consumer)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """How a Kubernetes API server is used; nothing of it matters for simulated clusters."""

    binding: BindingMode = "node-name"
    """How pods get their node: `node-name` (cheapest: one call), `subresource` (created without, then bound: two), or
    `affinity` (kube-scheduler binds; for volumes that wait for their first consumer)."""
    scheduler_name: str = "argosy"
    """`schedulerName` of pods that wait for a binding of ours, so that no other scheduler takes them; `subresource`
    only."""
    finalizer: bool = True
    """Pods carry the finalizer `argosy.dev/stored` until their end is stored, so that one that was collected while
    nobody watched still tells it; costs one more call per deletion."""
    namespaces: tuple[str, ...] = ()
    """Namespaces, at most 64, that the executor lists, watches and makes objects in, each by itself, so that it needs
    rights in no other; a job that wants another is rejected. Empty for all. What runs in a namespace that is named no
    more is lost sight of: let it end before. Samplers read the pods of all namespaces all the same."""
    kinds: tuple[str, ...] = ()
    """Custom resources that bags may hold, as `Kind.group`; they are listed from the start. Others are found when a bag
    uses them, or by `discover`."""
    discover: bool = True
    """Look once through all custom resources of the cluster for objects of ours; kinds that may not be listed are
    skipped."""
    requests_per_s: float = field(default=3000.0, metadata={"may_be_zero": True})
    """Calls begun per second, in the long run; 0 for no limit. The API server limits as well, and is obeyed."""
    burst_count: int = 500
    """Calls that may begin at once after a pause."""
    concurrency: int = 64
    """Calls under way at once, watches apart. 64 gave 1,441 creates/s where 16 gave 1,243 and 1 gave 433."""
    try_count: int = 4
    """How often a call that was not answered, or answered with a passing failure, is made before it counts as
    unavailable."""
    retry_first_s: float = 0.1
    """Wait before the second try, seconds; it doubles, with chance, unless the API server says how long."""
    retry_most_s: float = 5.0
    """Longest wait between tries, seconds; also bounds what the API server may ask for within one call."""
    page_count: int = 500
    """Objects per page of a list: 500 pods are 1 to 2 MB."""
    watch_timeout_s: float = 290.0
    """How long the API server is asked to keep a watch, seconds."""
    watch_idle_s: float = 120.0
    """Silence after which a watch counts as broken, seconds; bookmarks come about once a minute."""
    watch_buffer_bytes: int = 16 << 20
    """Bytes of a watch that may wait for their consumer; beyond that the stream is not read, and the API server may end
    it."""
    warnings_after_s: float = field(default=15.0, metadata={"may_be_zero": True})
    """How long a pod of ours waits without saying why before the events about it are read, seconds; then ever more
    seldom, up to every 300 s. 0 for never."""
    operator_server: str = ""
    """Address of the API as pods of this cluster reach it; jobs that submit others (docs/operators.md) find it in
    ARGOSY_SERVER. Empty: they are not told."""
    operator_audience: str = ""
    """Audience of the service account tokens that pods of such jobs get, to be named in the server's
    `access.service_accounts.audiences`; empty where nobody is asked who calls, or pods bring something of their own."""
    gather_ms: float = field(default=20.0, metadata={"may_be_zero": True})
    """How long changes gather before they are told; a batch costs the consumer more than a change."""

    def __post_init__(self) -> None:
        """Refuse namespaces that are none, and more than can be watched.

        Raises:
            InvalidRequest: There are such.
        """
        wrong = [name for name in self.namespaces if not is_dns_label(name)]
        if wrong:
            raise InvalidRequest(
                f"kubernetes.namespaces has {', '.join(map(repr, wrong))}, but names of namespaces are 1 to 63 of a-z, "
                "0-9 and '-', the latter not at the ends"
            )
        if len(self.namespaces) > MOST_NAMESPACES or len(set(self.namespaces)) < len(self.namespaces):
            raise InvalidRequest(
                f"kubernetes.namespaces has {len(self.namespaces)} names, but may have at most {MOST_NAMESPACES}, each"
                " once"
            )

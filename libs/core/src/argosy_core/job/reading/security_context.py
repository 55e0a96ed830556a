"""What pods and containers may say of how they run: user, capabilities, profiles, sysctls and the like.

Source: Pod Security Standards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from argosy_core.job.reading.findings import Findings
from argosy_core.job.reading.pod_rights import Check, PodLevel, PodRights, must_be_false, unless_privileged

__all__ = ["check_restricted", "check_security_context"]

_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_syncookies",
    }
)
_PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})


def check_security_context(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Check what pods and containers may set alike, and what only one of them has."""
    for key, setting in findings.mapping(value, path).items():
        check = _SECURITY_CHECKS.get(key)
        if check is not None:
            check(setting, f"{path}.{key}", findings, rights)


def _check_capabilities(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse added capabilities beyond the baseline."""
    added = findings.mapping(value, path).get("add")
    for index, capability in enumerate(findings.items(added, f"{path}.add")):
        if findings.text(capability, f"{path}.add[{index}]") not in _CAPABILITIES:
            findings.add(f"{path}.add[{index}]", f"the capability {str(capability)[:40]!r} is not allowed")


def _check_selinux(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse SELinux options beyond the baseline."""
    options = findings.mapping(value, path)
    if findings.text(options.get("type"), f"{path}.type") not in _SELINUX_TYPES:
        findings.add(f"{path}.type", "this SELinux type is not allowed")
    for key in ("user", "role"):
        if options.get(key):
            findings.add(f"{path}.{key}", "must not be set")


def _check_profile(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse unconfined seccomp and AppArmor profiles."""
    kind = findings.mapping(value, path).get("type")
    if kind is not None and findings.text(kind, f"{path}.type") not in _PROFILES:
        findings.add(f"{path}.type", "must be RuntimeDefault or Localhost")


def _check_sysctls(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse sysctls that reach beyond the pod."""
    for index, sysctl in enumerate(findings.mappings(value, path)):
        name = findings.text(sysctl.get("name"), f"{path}[{index}].name")
        if name not in _SYSCTLS:
            findings.add(f"{path}[{index}].name", f"the sysctl {name[:60]!r} is not allowed")


def _check_user(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse the user root where pods must do without."""
    if rights.level == PodLevel.RESTRICTED and value == 0:
        findings.add(path, "must not be 0 at the level restricted")


def _check_non_root(value: object, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse to run as root where pods must do without."""
    if rights.level == PodLevel.RESTRICTED and value is not True:
        findings.add(path, "must be true at the level restricted")


def _check_windows(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse host processes."""
    if findings.mapping(value, path).get("hostProcess") not in (None, False):
        findings.add(f"{path}.hostProcess", "must be false")


def _check_proc_mount(value: object, path: str, findings: Findings, _: PodRights) -> None:
    """Refuse an unmasked /proc."""
    if value not in (None, "", "Default"):
        findings.add(path, "must be Default")


_SECURITY_CHECKS: Final[dict[str, Check]] = {
    "privileged": must_be_false("must be false: privileged containers are not allowed"),
    "capabilities": unless_privileged(_check_capabilities),
    "seLinuxOptions": unless_privileged(_check_selinux),
    "seccompProfile": unless_privileged(_check_profile),
    "appArmorProfile": unless_privileged(_check_profile),
    "sysctls": unless_privileged(_check_sysctls),
    "windowsOptions": unless_privileged(_check_windows),
    "procMount": unless_privileged(_check_proc_mount),
    "runAsUser": _check_user,
    "runAsNonRoot": _check_non_root,
}


def check_restricted(
    spec: dict[str, Any], containers: Iterable[tuple[str, dict[str, Any]]], findings: Findings
) -> None:
    """Note what a pod must give up at the level restricted, and does not.

    Args:
        spec: The pod's `spec`.
        containers: Path and container, init containers included.
        findings: Where violations are noted.
    """
    own = _settings_of(spec)
    is_windows = isinstance(spec.get("os"), dict) and spec["os"].get("name") == "windows"
    for place, container in containers:
        settings = _settings_of(container)
        where = f"{place}.securityContext"
        if settings.get("runAsNonRoot", own.get("runAsNonRoot")) is not True:
            findings.add(
                f"{where}.runAsNonRoot",
                "must be true at the level restricted: add `runAsNonRoot: true`, here or to the pod's securityContext,"
                " and `runAsUser: 65534`, or another, if the image's user is root",
            )
        if is_windows:
            continue
        if settings.get("allowPrivilegeEscalation") is not False:
            findings.add(
                f"{where}.allowPrivilegeEscalation",
                "must be false at the level restricted: add `allowPrivilegeEscalation: false`",
            )
        if settings.get("seccompProfile", own.get("seccompProfile")) is None:
            findings.add(
                f"{where}.seccompProfile",
                "must be set at the level restricted: add `seccompProfile: {type: RuntimeDefault}`, here or to the"
                " pod's securityContext",
            )
        capabilities = settings.get("capabilities")
        given = capabilities if isinstance(capabilities, dict) else {}
        dropped, added = given.get("drop"), given.get("add")
        if not isinstance(dropped, list) or "ALL" not in dropped:
            findings.add(
                f"{where}.capabilities.drop", "must hold ALL at the level restricted: add `capabilities: {drop: [ALL]}`"
            )
        if isinstance(added, list) and any(one != "NET_BIND_SERVICE" for one in added):
            findings.add(f"{where}.capabilities.add", "may hold NET_BIND_SERVICE alone at the level restricted")


def _settings_of(holder: dict[str, Any]) -> dict[str, Any]:
    settings = holder.get("securityContext")
    return settings if isinstance(settings, dict) else {}

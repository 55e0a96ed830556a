"""Telling pods of jobs that submit others whom to call, as whom, and whose children those are.

Source: docs/operators.md.
"""

from __future__ import annotations

from typing import Any, Final

from argosy_core.job.reading.families import is_operator
from argosy_core.reconcile.rendering import JOB_LABEL, QUEUE_LABEL
from argosy_kube.kubernetes.settings import KubernetesSettings

__all__ = ["tell_operator"]

_VOLUME: Final = "argosy-token"
_FOLDER: Final = "/var/run/secrets/argosy.dev"
_TOKEN_LIFE_S: Final = 3600


def tell_operator(pod: dict[str, Any], settings: KubernetesSettings) -> None:
    """Give a rendered pod the variables of an operator, if its job is one; variables of the user's come later."""
    metadata, spec = pod["metadata"], pod["spec"]
    if not is_operator(metadata["annotations"]):
        return
    told = {"ARGOSY_PARENT_ID": metadata["labels"][JOB_LABEL], "ARGOSY_QUEUE": metadata["annotations"][QUEUE_LABEL]}
    if settings.operator_server:
        told["ARGOSY_SERVER"] = settings.operator_server
    mounts: list[dict[str, Any]] = []
    if settings.operator_audience:
        token = {"audience": settings.operator_audience, "expirationSeconds": _TOKEN_LIFE_S, "path": "token"}
        volume = {"name": _VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}
        spec["volumes"] = [*(spec.get("volumes") or ()), volume]
        mounts = [{"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}]
        told["ARGOSY_TOKEN_FILE"] = f"{_FOLDER}/token"
    variables = [{"name": name, "value": value} for name, value in told.items()]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        container["env"] = [*variables, *(container.get("env") or ())]
        if mounts:
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]

"""Whose an object is that has the name of a run's object, where its labels do not say it.

Labels are what lists and watches select by, so they are what people change. Each object that is made also carries an
annotation that says of which run it is, which nothing selects by. A name proves nothing by itself: it follows from the
run, and whoever reads one can take it.
"""

from __future__ import annotations

from typing import Final

from argosy_core.job.reading.naming import run_suffix
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, RUN_ANNOTATION, parse_run_mark, run_mark
from argosy_kube.kubernetes.api.documents import FoundMetadata
from argosy_kube.kubernetes.reading.columns import read_run

__all__ = ["STORED_FINALIZER", "is_own", "read_mark"]

STORED_FINALIZER: Final = "argosy.dev/stored"
"""Keeps a pod that has ended until its end is stored."""


def is_own(metadata: FoundMetadata, run: tuple[int, int, int], *, installation: str) -> bool:
    """Return whether an object that has the name of a run's object is that object.

    Its labels say so, as in any list; or its annotation; or it carries nobody's label and annotation, and our
    finalizer, which nobody else writes.

    Args:
        metadata: Of the object, which has the name, in the namespace.
        run: (handle, ordinal, position) that has this name.
        installation: Whose objects are ours.
    """
    labels = metadata.labels or {}
    if read_run(metadata, installation) == run:
        return True
    mark = (metadata.annotations or {}).get(RUN_ANNOTATION)
    if mark is not None:
        return mark == run_mark(installation, *run)
    return INSTALLATION_LABEL not in labels and STORED_FINALIZER in (metadata.finalizers or ())


def read_mark(metadata: FoundMetadata, installation: str) -> tuple[int, int, int] | None:
    """Return (handle, attempt, position) of a pod that our finalizer keeps, by its annotation; None if it is not ours.

    Whoever copies a pod copies its annotation too, but the name that belongs to the run is taken.
    """
    run = parse_run_mark((metadata.annotations or {}).get(RUN_ANNOTATION, ""), installation)
    if run is None or STORED_FINALIZER not in (metadata.finalizers or ()):
        return None
    return run if metadata.name.endswith(run_suffix(run[0], run[1])) else None

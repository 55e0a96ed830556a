"""Cutting long lists of drafts into requests that a server takes.

Source: proto/argosy/api/v1/job.proto, limits of SubmitJobsRequest; gRPC's default limit of 4 MiB a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from argosy_client.values import JobDraft

__all__ = ["MAX_ITEM_COUNT", "MAX_JOB_COUNT", "MAX_REQUEST_BYTES", "split_drafts"]

MAX_ITEM_COUNT: Final = 1000
"""Items, and distinct specs, a request may carry."""
MAX_JOB_COUNT: Final = 100_000
"""Jobs a request may make, counts included."""
MAX_REQUEST_BYTES: Final = 3 << 20
"""Bytes of specs, labels and names a part holds; a quarter of the server's limit is left for framing."""
_ITEM_BYTES: Final = 64


def split_drafts(drafts: Iterable[JobDraft]) -> Iterator[Sequence[JobDraft]]:
    """Yield the drafts in order, in parts each of which fits one request; each part is accepted whole or not at all.

    A draft that is too large by itself is a part of its own, for the server to refuse with its reason.
    """
    part: list[JobDraft] = []
    specs: set[tuple[object, ...]] = set()
    size_bytes = job_count = 0
    for draft in drafts:
        spec = draft.spec_key
        item_bytes = _size_of(draft) + (0 if spec in specs else _spec_bytes(draft))
        if part and (
            len(part) == MAX_ITEM_COUNT
            or job_count + draft.count > MAX_JOB_COUNT
            or size_bytes + item_bytes > MAX_REQUEST_BYTES
        ):
            yield part
            part, size_bytes, job_count = [], 0, 0
            specs = set()
            item_bytes = _size_of(draft) + _spec_bytes(draft)
        part.append(draft)
        specs.add(spec)
        size_bytes += item_bytes
        job_count += draft.count
    if part:
        yield part


def _size_of(draft: JobDraft) -> int:
    texts = (draft.queue, draft.job_set, draft.client_id, *draft.labels.keys(), *draft.labels.values())
    return _ITEM_BYTES + sum(map(len, texts)) + sum(map(len, draft.annotations.values()))


def _spec_bytes(draft: JobDraft) -> int:
    return sum(map(_bytes_of, draft.manifests)) + sum(_ITEM_BYTES + _bytes_of(one.template) for one in draft.groups)


def _bytes_of(manifest: str) -> int:
    return len(manifest) if manifest.isascii() else len(manifest.encode())

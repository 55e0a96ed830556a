"""Admission: a submit request becomes columns ready to be stored, or one error that lists every fault.

Everything here is a function of the request, the queues and the read specs; nothing is stored and nothing waits.
Columns have one element per job; an item of `count` n stands for n neighbouring jobs.

Source: design section 5, "Submit".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import AlreadyExists, FieldViolation, InvalidRequest, NotFound, NotPermitted
from argosy_core.job.identity import parse_id
from argosy_core.job.reading.after import encode_after
from argosy_core.job.reading.options import OPTION_NAMES, UNSET, JobOptions
from argosy_core.job.reading.queue_policy import QueuePolicy
from argosy_server.api.codecs.names import (
    ANY_INSTALLATION,
    NAME_RULE,
    QUEUE_NAME_RULE,
    NamespaceRules,
    is_name,
    is_queue_name,
    is_reserved_namespace,
    metadata_faults,
)
from argosy_server.api.scaling import scaling_faults
from argosy_server.api.submits.specs import ReadSpec
from argosy_server.api.submits.submit_items import ItemColumns, Metadata
from argosy_store.replicas.queue_limits import QueueLimit

__all__ = ["AdmittedJobs", "KnownQueue", "admit"]

_MAX_PAIRS_AFTER: Final = 100_000
"""Most pairs of a job and one that it waits for of a request: each costs the leader some hundred bytes."""

_DEFAULT_NAMESPACE: Final = "default"
_TIME_LIMIT: Final = OPTION_NAMES.index("time_limit_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQueue:
    """What admission needs of a queue."""

    queue_id: int
    """Id."""
    name: str
    """Name."""
    pool: str
    """Pool its jobs belong to."""
    namespaces: frozenset[str]
    """Namespaces its jobs may use."""
    max_queued_count: int
    """Most jobs that may wait."""
    submit_rate_per_s: float = 0.0
    """Most jobs that may be submitted in a second; 0 for no limit."""
    policy: QueuePolicy | None = None
    """What its pods may do; None for the installation's policy."""

    @staticmethod
    def allowed_namespaces(
        name: str, namespaces: Sequence[str], rules: NamespaceRules = ANY_INSTALLATION
    ) -> frozenset[str]:
        """Return the namespaces of a queue: those given, else its own name and, if that is shared, `default`.

        Reserved ones are never among them, whatever a queue is called and whatever was stored once.
        """
        wanted = namespaces or ((name, _DEFAULT_NAMESPACE) if rules.shares_default else (name,))
        return frozenset(namespace for namespace in wanted if not is_reserved_namespace(namespace, rules.reserved))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedJobs:
    """Jobs of one request, checked; all columns have one element per job."""

    pool: str
    """Pool of all of them."""
    count: int
    """Number of jobs."""
    queue_ids: npt.NDArray[np.int32]
    """Queues."""
    job_set_index: npt.NDArray[np.int32]
    """Index into job_sets."""
    job_sets: tuple[tuple[int, str], ...]
    """Distinct (queue id, name)."""
    priorities: npt.NDArray[np.int32]
    """Priorities."""
    spec_index: npt.NDArray[np.int32]
    """Index into specs."""
    specs: tuple[ReadSpec, ...]
    """Specs of the request, in its order."""
    metadata_index: npt.NDArray[np.int32]
    """Index into metadata, or -1."""
    metadata: tuple[bytes, ...]
    """Distinct labels and annotations, JSON."""
    client_ids: tuple[str | None, ...]
    """Client ids, or empty if no job has one."""
    payload_hashes: bytes
    """16 bytes per job, or empty if no job has a client id."""
    items: npt.NDArray[np.int32]
    """Index of the request's item, for errors."""
    run_after: tuple[bytes, ...] = ()
    """What each runs after (`argosy_core.job.reading.after`), empty where nothing; or empty if that is so of all."""
    options: JobOptions | None = None
    """How long they run by what the submitter says; None if nothing is said of any."""
    submitter: str = ""
    """Name of whoever submits them; empty where nobody is asked."""
    submitter_limit: int = 0
    """Most jobs of that submitter that may be open; 0 for any."""
    traceparent: str = ""
    """W3C context of the submit, if the submitter traces its jobs."""
    limits: Mapping[int, QueueLimit] = field(default_factory=dict)
    """By queue id: how many jobs may wait."""
    generation: int = 0
    """Generation of the database that the ids are of."""


@dataclass(slots=True)
class _Faults:
    """Faults by how they are answered; the first kind that occurs decides the code, and all are listed."""

    invalid: list[FieldViolation]
    missing: list[FieldViolation] = field(default_factory=list)
    forbidden: list[FieldViolation] = field(default_factory=list)
    unequal: list[FieldViolation] = field(default_factory=list)

    def found(self) -> bool:
        """Return whether there are faults."""
        return bool(self.invalid or self.missing or self.forbidden)

    def raise_any(self) -> None:
        """Raise the error that the faults make, if there are any."""
        everything = (*self.invalid, *self.missing, *self.forbidden, *self.unequal)
        if not everything:
            return
        error = InvalidRequest if self.invalid else NotFound if self.missing else NotPermitted
        text = "one fault" if len(everything) == 1 else f"{len(everything)} faults"
        raise error(f"nothing was accepted because of {text}", violations=everything)


def admit(
    items: ItemColumns,
    queues: Mapping[str, KnownQueue],
    specs: Sequence[ReadSpec],
    *,
    max_job_count: int,
) -> AdmittedJobs:
    """Return the jobs of a request that keeps the rules of its .proto file.

    Args:
        items: The request's items.
        queues: The queues they name, as far as they exist.
        specs: The request's specs, read, in order.
        max_job_count: Most jobs of a request, counts included.

    Raises:
        InvalidRequest: Something is wrong with an item or a spec.
        NotFound: A queue does not exist.
        NotPermitted: A spec uses a namespace that its queue may not.
        AlreadyExists: One client id stands for two different jobs of the request.

    Complexity: O(items + jobs); measured 2 us an item without labels.
    """
    places, names, sets, client_ids = items.specs, items.queues, items.job_sets, items.client_ids
    faults = _Faults(
        [
            FieldViolation(field=f"specs[{place}].{violation.field}", description=violation.description)
            for place, spec in enumerate(specs)
            for violation in spec.violations
        ]
    )
    counts = np.array(items.counts, dtype=np.int64)
    counts[counts == 0] = 1
    _check_specs(places, len(specs), faults)
    _check_queues(names, queues, faults)
    _check_names(sets, client_ids, faults)
    job_count = int(counts.sum())
    if job_count > max_job_count:
        text = f"ask for {job_count} jobs, at most {max_job_count} are allowed"
        faults.invalid.append(FieldViolation(field="items", description=text))
    given, metadata_index, metadata = _read_marked(items, faults)
    after = _read_after(items, counts, faults)
    _check_namespaces(names, places, queues, specs=specs, faults=faults)
    _check_times(items, queues, specs, faults)
    faults.invalid += items.scaling_faults or scaling_faults(items.metadata, places, specs)
    if faults.found():  # all faults are told at once, so that one round of mending is enough
        _check_unequal(items, metadata_index, faults)
    faults.raise_any()
    queue_ids = [queues[name].queue_id for name in names]
    job_sets: dict[tuple[int, str], int] = {}
    set_index = [job_sets.setdefault(key, len(job_sets)) for key in zip(queue_ids, sets, strict=True)]
    expanded_ids: tuple[str | None, ...] = ()
    hashes = b""
    if any(client_ids):
        texts = [metadata[place] if place >= 0 else b"" for place in metadata_index]
        item_hashes = _payload_hashes([specs[place].row.hash for place in places], items, texts, after)
        expanded_ids, hashes = _expand_client_ids(client_ids, item_hashes, counts)
    if any(spec.pod_labels for spec in specs):  # after the hashes, which stay those of what was sent
        metadata_index, metadata = _read_metadata(_with_pod_labels(given, places, specs), faults)
    repeats = None if job_count == len(places) else counts
    admitted = AdmittedJobs(
        pool=_common_pool(names, queues),
        count=job_count,
        queue_ids=_column(queue_ids, repeats),
        job_set_index=_column(set_index, repeats),
        job_sets=tuple(job_sets),
        priorities=_column(items.priorities, repeats),
        spec_index=_column(places, repeats),
        specs=tuple(specs),
        metadata_index=_column(metadata_index, repeats),
        metadata=metadata,
        client_ids=expanded_ids,
        payload_hashes=hashes,
        items=_column(range(len(places)), repeats),
        run_after=tuple(value for value, count in zip(after, counts.tolist(), strict=False) for _ in range(count)),
        options=_option_columns(items, specs, repeats),
    )
    _check_repeats(admitted)
    return admitted


def _column(values: Sequence[int], repeats: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int32]:
    array = np.array(values, dtype=np.int32)
    return array if repeats is None else np.repeat(array, repeats)


def _option_columns(
    items: ItemColumns, specs: Sequence[ReadSpec], repeats: npt.NDArray[np.int64] | None
) -> JobOptions | None:
    """Return what is said of jobs: by their items, and by the deadlines of their pods as time limits."""
    if items.options is None and all(spec.deadline_s == UNSET for spec in specs):
        return None
    count = len(items.specs)
    deadline_s = np.array([spec.deadline_s for spec in specs], dtype=np.int32)[items.specs]
    rows = np.array(items.options or [(UNSET,) * len(OPTION_NAMES)] * count, dtype=np.int32)
    shorter = (deadline_s != UNSET) & ((rows[:, _TIME_LIMIT] == UNSET) | (deadline_s < rows[:, _TIME_LIMIT]))
    rows[shorter, _TIME_LIMIT] = deadline_s[shorter]
    columns = rows.T if repeats is None else np.repeat(rows.T, repeats, axis=1)
    return JobOptions(**dict(zip(OPTION_NAMES, columns, strict=True)))


def _check_specs(places: Sequence[int], spec_count: int, faults: _Faults) -> None:
    if max(places, default=0) < spec_count:
        return
    for index, place in enumerate(places):
        if place >= spec_count:
            faults.invalid.append(
                FieldViolation(
                    field=f"items[{index}].spec", description=f"is {place}, but the request has {spec_count} specs"
                )
            )


def _check_queues(names: Sequence[str], queues: Mapping[str, KnownQueue], faults: _Faults) -> None:
    if queues.keys() >= set(names):
        return
    for index, name in enumerate(names):
        if name in queues:
            continue
        field = f"items[{index}].queue"
        if is_queue_name(name):
            text = f"queue {name!r} does not exist; create it first, or see the list of queues"
            faults.missing.append(FieldViolation(field=field, description=text))
        else:
            faults.invalid.append(FieldViolation(field=field, description=QUEUE_NAME_RULE))


def _check_names(sets: Sequence[str], client_ids: Sequence[str], faults: _Faults) -> None:
    odd_sets = {name for name in set(sets) if not is_name(name)}
    odd_ids = {name for name in set(client_ids) if name and not is_name(name)}
    if not odd_sets and not odd_ids:
        return
    for index, (name, client_id) in enumerate(zip(sets, client_ids, strict=True)):
        if name in odd_sets:
            faults.invalid.append(FieldViolation(field=f"items[{index}].job_set", description=NAME_RULE))
        if client_id in odd_ids:
            faults.invalid.append(FieldViolation(field=f"items[{index}].client_id", description=NAME_RULE))


def _check_namespaces(
    names: Sequence[str],
    places: Sequence[int],
    queues: Mapping[str, KnownQueue],
    *,
    specs: Sequence[ReadSpec],
    faults: _Faults,
) -> None:
    used = {namespace for spec in specs for namespace in spec.namespaces}
    if all(used <= queue.namespaces for queue in queues.values()):
        return
    bad: dict[tuple[str, int], str] = {}
    for name, place in set(zip(names, places, strict=True)):
        queue = queues.get(name)
        if queue is None or place >= len(specs) or specs[place].violations:
            continue
        foreign = [namespace for namespace in specs[place].namespaces if namespace not in queue.namespaces]
        if foreign:
            allowed = ", ".join(sorted(queue.namespaces)[:5]) or "none"
            bad[name, place] = f"queue {name!r} may not use namespace {foreign[0]!r}; it may use {allowed}"
    if bad:
        for index, pair in enumerate(zip(names, places, strict=True)):
            if pair in bad:
                faults.forbidden.append(FieldViolation(field=f"items[{index}].spec", description=bad[pair]))


def _check_times(
    items: ItemColumns, queues: Mapping[str, KnownQueue], specs: Sequence[ReadSpec], faults: _Faults
) -> None:
    """Refuse jobs without a time limit, or with a longer one than their queue grants."""
    granted_s = {name: queue.policy.max_time_s for name, queue in queues.items() if queue.policy is not None}
    if not any(granted_s.values()):
        return
    for index, (name, place) in enumerate(zip(items.queues, items.specs, strict=True)):
        most_s = granted_s.get(name, 0)
        if not most_s or place >= len(specs):
            continue
        own_s = items.options[index][_TIME_LIMIT] if items.options is not None else UNSET
        limits_s = [one for one in (own_s, specs[place].deadline_s) if one != UNSET]
        if not limits_s or min(limits_s) > most_s:
            text = f"needs a time limit of at most {most_s} s, which is what queue {name!r} grants"
            faults.invalid.append(FieldViolation(field=f"items[{index}].time_limit", description=text))


def _common_pool(names: Sequence[str], queues: Mapping[str, KnownQueue]) -> str:
    pools = {queues[name].pool for name in set(names)}
    if len(pools) > 1:
        first = names[0]
        raise InvalidRequest(
            "queues of one request must belong to one pool; submit to each pool by itself",
            violations=tuple(
                FieldViolation(
                    field=f"items[{index}].queue",
                    description=f"belongs to pool {queues[name].pool!r}, items[0].queue to {queues[first].pool!r}",
                )
                for index, name in enumerate(names)
                if queues[name].pool != queues[first].pool
            ),
        )
    return pools.pop()


def _read_metadata(metadata: Sequence[Metadata | None], faults: _Faults) -> tuple[list[int], tuple[bytes, ...]]:
    """Return per item an index into the distinct metadata (-1 for none), and these as JSON."""
    index: list[int] = []
    distinct: dict[Metadata, int] = {}
    texts: list[bytes] = []
    found: list[tuple[tuple[str, str], ...]] = []
    for number, key in enumerate(metadata):
        if key is None:
            index.append(-1)
            continue
        place = distinct.get(key)
        if place is None:
            place = distinct[key] = len(texts)
            document = {"labels": dict(key[0]), "annotations": dict(key[1])}
            texts.append(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
            found.append(tuple(metadata_faults(document["labels"], document["annotations"])))
        for path, description in found[place]:
            faults.invalid.append(FieldViolation(field=f"items[{number}].{path}", description=description))
        index.append(place)
    return index, tuple(texts)


def _read_marked(items: ItemColumns, faults: _Faults) -> tuple[Sequence[Metadata | None], list[int], tuple[bytes, ...]]:
    """Return the metadata of items with the labels and annotations of ours, and as `_read_metadata` does."""
    index, texts = _read_metadata(items.metadata, faults)
    if not items.marks:
        return items.metadata, index, texts
    merged = list(items.metadata)
    for number, marks in items.marks.items():
        labels, annotations = merged[number] or ((), ())
        merged[number] = tuple(sorted((*labels, *marks[0]))), tuple(sorted((*annotations, *marks[1])))
    return merged, *_read_metadata(merged, _Faults([]))  # nobody may give these keys, so they come after the check


def _with_pod_labels(
    metadata: Sequence[Metadata | None], places: Sequence[int], specs: Sequence[ReadSpec]
) -> list[Metadata | None]:
    """Return the metadata of items with the labels of their pods; of a key that both have, the item's value counts."""
    merged: list[Metadata | None] = []
    for given, place in zip(metadata, places, strict=True):
        pod_labels = specs[place].pod_labels
        if not pod_labels:
            merged.append(given)
        elif given is None:
            merged.append((pod_labels, ()))
        else:
            merged.append((tuple(sorted({**dict(pod_labels), **dict(given[0])}.items())), given[1]))
    return merged


def _read_after(items: ItemColumns, counts: npt.NDArray[np.int64], faults: _Faults) -> list[bytes]:
    """Return what each item runs after, as it is stored; nothing if that is nothing for all."""
    pairs = 0
    for number, (given, count) in enumerate(zip(items.after, counts.tolist(), strict=False)):
        for place, job_id in enumerate(given[1] if given else ()):
            pairs += count
            try:
                parse_id(job_id)
            except InvalidRequest as error:
                path = f"items[{number}].after.job_ids[{place}]"
                faults.invalid.append(FieldViolation(field=path, description=error.message))
    if pairs > _MAX_PAIRS_AFTER:
        text = f"its jobs wait for {pairs} others in all, counts included; at most {_MAX_PAIRS_AFTER} are allowed"
        faults.invalid.append(FieldViolation(field="items", description=text))
    return [] if faults.found() else [encode_after(*given) if given else b"" for given in items.after]


def _payload_hashes(
    spec_hashes: Sequence[bytes], items: ItemColumns, metadata: Sequence[bytes], after: Sequence[bytes]
) -> list[bytes]:
    """Return per item 16 bytes over all that must be equal for a repeat to be one; the count is not part of it."""
    texts = metadata
    if items.options is not None:
        texts = [
            text if max(given) < 0 else b"%b\x00%b" % (text, "/".join(map(str, given)).encode())
            for text, given in zip(metadata, items.options, strict=True)
        ]
    if after:
        texts = [b"%b\x00%b" % pair if pair[1] else pair[0] for pair in zip(texts, after, strict=True)]
    return [
        blake2b(b"%b%d/%b\x00%b" % (spec_hash, priority, job_set.encode(), text), digest_size=16).digest()
        for spec_hash, priority, job_set, text in zip(spec_hashes, items.priorities, items.job_sets, texts, strict=True)
    ]


def _expand_client_ids(
    client_ids: Sequence[str], hashes: Sequence[bytes], counts: npt.NDArray[np.int64]
) -> tuple[tuple[str | None, ...], bytes]:
    """Return client ids and payload hashes per job; copies are called `id~1`, `id~2` and so on.

    No client id holds a tilde, so a copy is never taken for another job.
    """
    if int(counts.max()) == 1:
        return tuple([client_id or None for client_id in client_ids]), b"".join(hashes)
    ids: list[str | None] = []
    parts: list[bytes] = []
    for client_id, digest, count in zip(client_ids, hashes, counts.tolist(), strict=True):
        if client_id:
            ids.append(client_id)
            ids.extend([f"{client_id}~{copy}" for copy in range(1, count)])
        else:
            ids.extend([None] * count)
        parts.append(digest * count)
    return tuple(ids), b"".join(parts)


def _check_unequal(items: ItemColumns, metadata_index: Sequence[int], faults: _Faults) -> None:
    """List client ids that stand for different items, beside the other faults of a request."""
    if not any(items.client_ids):
        return
    first: dict[tuple[str, str], int] = {}
    for index, (queue, client_id) in enumerate(zip(items.queues, items.client_ids, strict=True)):
        if not client_id:
            continue
        other = first.setdefault((queue, client_id), index)
        same = items.specs
        columns = (same, items.job_sets, items.priorities, metadata_index, items.options or same, items.after or same)
        if any(column[index] != column[other] for column in columns):
            faults.unequal.append(_unequal(client_id, index, other))


def _unequal(client_id: str, item: int, other: int) -> FieldViolation:
    description = f"{client_id!r} stands for another job in items[{other}]"
    return FieldViolation(field=f"items[{item}].client_id", description=description)


def _check_repeats(admitted: AdmittedJobs) -> None:
    """Refuse a client id that stands for two different jobs of one queue; equal ones are one job."""
    ids = admitted.client_ids
    if not ids:
        return
    given = [client_id for client_id in ids if client_id is not None]
    if len(set(given)) == len(given):
        return
    first: dict[tuple[int, str], int] = {}
    violations: list[FieldViolation] = []
    hashes = admitted.payload_hashes
    for job, (queue_id, client_id) in enumerate(zip(admitted.queue_ids.tolist(), ids, strict=True)):
        if client_id is None:
            continue
        other = first.setdefault((queue_id, client_id), job)
        if hashes[16 * job : 16 * job + 16] != hashes[16 * other : 16 * other + 16]:
            violations.append(_unequal(client_id, int(admitted.items[job]), int(admitted.items[other])))
    if violations:
        raise AlreadyExists(
            "a client id names one job; nothing was accepted because of different jobs with one client id",
            violations=tuple(violations),
        )

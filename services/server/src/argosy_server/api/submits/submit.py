"""Submit: validate, admit, store, answer; in this order, and nothing in part.

Source: design section 5, "Submit".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from argosy.api.v1 import job_pb2
from argosy_core.access import Verb
from argosy_core.errors import AlreadyExists, FieldViolation, NotFound, NotPermitted, QuotaExceeded
from argosy_core.job.identity import parse_id
from argosy_core.job.reading.findings import MAX_FINDING_COUNT
from argosy_core.job.reading.pod_groups import PodGroup
from argosy_core.job.reading.queue_policy import QueuePolicy
from argosy_core.job.reading.retry_rules import ReplacedMembers, RetryRules
from argosy_core.job.reading.spec import spec_hash
from argosy_core.job.states import FailureKind
from argosy_runtime.access.guard import CALLER
from argosy_runtime.metrics import METRICS
from argosy_runtime.validation import check_in_pieces, check_request
from argosy_server.api.codecs.job_codec import job_ids
from argosy_server.api.queue_cache import QueueCache
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.submits.admission import AdmittedJobs, KnownQueue, admit
from argosy_server.api.submits.families import with_marks
from argosy_server.api.submits.manifests import is_json, to_json
from argosy_server.api.submits.specs import (
    NO_EXTRAS,
    PolicySpecs,
    ReadSpec,
    SpecCache,
    SpecExtras,
    spec_key,
    unreadable,
)
from argosy_server.api.submits.submit_gather import SubmitGather
from argosy_server.api.submits.submit_items import MAX_ITEM_COUNT, ItemColumns, keeps_rules, read_items
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.queue_limits import counts_by_queue
from argosy_store.rows import JobRecord

__all__ = ["Submission"]

_STRICT: Final = (job_pb2.MANIFEST_VALIDATION_UNSPECIFIED, job_pb2.MANIFEST_VALIDATION_STRICT)
_VALIDATIONS: Final = (*_STRICT, job_pb2.MANIFEST_VALIDATION_WARN, job_pb2.MANIFEST_VALIDATION_IGNORE)
_REPLACED: Final = {
    job_pb2.MEMBER_FAILURE_REPLACE_LOST: ReplacedMembers.LOST,
    job_pb2.MEMBER_FAILURE_REPLACE: ReplacedMembers.ALL,
}
_READS_PER_TURN: Final = 32  # specs read before others get the event loop: 2 ms if none is like another


class Submission:
    """Takes submits.

    Args:
        queues: Queues by name.
        specs: Specs by the policy that they are judged by.
        gather: Stores admitted requests.
        store: Where jobs are looked up.
        threads: Where they are, and where YAML is read.
        max_job_count: Most jobs of one request.
        missing: Returns what is known to be missing on all nodes of a pool for classes, by definition.
    """

    def __init__(
        self,
        queues: QueueCache,
        specs: PolicySpecs,
        gather: SubmitGather,
        *,
        store: ApiStore,
        threads: StoreThreads,
        max_job_count: int,
        missing: Callable[[str, Sequence[bytes]], Awaitable[Mapping[bytes, tuple[str, ...]]]],
    ) -> None:
        """Keep what it needs."""
        self._queues = queues
        self._specs = specs
        self._gather = gather
        self._store = store
        self._threads = threads
        self._max_job_count = max_job_count
        self._missing = missing

    async def submit(self, request: job_pb2.SubmitJobsRequest, *, traceparent: str = "") -> job_pb2.SubmitJobsResponse:
        """Return the ids of accepted jobs once they are durable.

        Args:
            request: The request.
            traceparent: W3C context for spans about the jobs, if their submitter traces them.

        Raises:
            InvalidRequest: Something is wrong; lists every bad item.
            NotFound: A queue, a job to run after, or a parent does not exist.
            NotPermitted: A namespace is not the queue's, or the caller may not submit to a queue.
            AlreadyExists: A client id stands for another job.
            QuotaExceeded: A queue or this replica has too much waiting, or user or queue have taken their quotas.
            BackendUnavailable: The database cannot be reached; repeat with the same client ids.
        """
        jobs, queues, warnings = await self.admit(request)
        if request.validate_only:
            return job_pb2.SubmitJobsResponse(warnings=warnings + await self._warn_of_nodes(jobs))
        limits = self._queues.expect(queues.values(), counts_by_queue(jobs.queue_ids))
        quotas = self._gather.quotas
        jobs = replace(
            jobs,
            submitter=CALLER.get().principal.name,
            submitter_limit=quotas.max_open_job_count,
            traceparent=traceparent,
            limits=limits,
        )
        quotas.take(jobs, {queue.queue_id: name for name, queue in queues.items()})
        result = await self._gather.submit(jobs)
        if result.error is not None:
            if not isinstance(result.error, QuotaExceeded):  # what is remembered of the queues is wrong
                for name in queues:
                    self._queues.forget(name)
            raise result.error
        if result.conflicts:
            raise _conflict(jobs, result.conflicts)
        METRICS.submitted_jobs.inc(jobs.count)
        return job_pb2.SubmitJobsResponse(
            job_ids=job_ids(result.id_highs, result.handles),
            warnings=warnings + await self._warn_of_nodes(jobs),
            existing_jobs=result.existing.tolist(),
        )

    async def admit(
        self, request: job_pb2.SubmitJobsRequest
    ) -> tuple[AdmittedJobs, dict[str, KnownQueue], list[job_pb2.SubmitWarning]]:
        """Return what a request submits, checked, with its queues by name and what to warn of.

        Raises:
            InvalidRequest: As `submit`.
            NotFound: As `submit`.
            NotPermitted: As `submit`.
        """
        if max(len(request.items), len(request.specs)) > MAX_ITEM_COUNT:
            check_request(request)  # refuses it before any element is read
        items = read_items(list(request.items))
        texts = [[manifest.encode() for manifest in spec.manifests] for spec in request.specs]
        saying_more = [place for place, spec in enumerate(request.specs) if spec.groups or _says_retry(spec)]
        if saying_more or not keeps_rules(texts, items) or request.validation not in _VALIDATIONS:
            for _ in check_in_pieces(request):
                await asyncio.sleep(0)
        extras: dict[int, SpecExtras] = {}
        for number, place in enumerate(saying_more):
            if number % _READS_PER_TURN == _READS_PER_TURN - 1:
                await asyncio.sleep(0)
            spec = request.specs[place]
            extras[place] = SpecExtras(groups=_groups_of(spec), rules=_rules_of(spec))
        generation = self._queues.generation
        queues = _usable(await self._queues.find(set(items.queues)), items.queues)
        items = await with_marks(items, self._queues, self._read_jobs)
        read, items = await self._read_specs(texts, extras, items, queues)
        specs, warnings = _validated(read, request.validation)
        jobs = admit(items, queues, specs, max_job_count=self._max_job_count)
        await self._check_others(items)
        return replace(jobs, generation=generation), queues, warnings

    async def _read_jobs(self, handles: Sequence[int]) -> list[JobRecord]:
        return await self._threads.run(self._store.get_jobs, handles)

    async def _warn_of_nodes(self, jobs: AdmittedJobs) -> list[job_pb2.SubmitWarning]:
        """Return warnings of specs that no node which is known now could hold."""
        missing = await self._missing(jobs.pool, [spec.definition for spec in jobs.specs])
        return [
            job_pb2.SubmitWarning(
                field=f"specs[{index}]",
                description=f"no node that is known now can hold it: {'; '.join(missing[spec.definition])}",
            )
            for index, spec in enumerate(jobs.specs)
            if missing.get(spec.definition)
        ][:MAX_FINDING_COUNT]

    async def _check_others(self, items: ItemColumns) -> None:
        """Refuse jobs that are to run after some that do not exist, or that the caller may not see."""
        named = {job_id.lower() for given in items.after if given for job_id in given[1]}
        if not named:
            return
        queues = await self._threads.run(self._store.queues_of, [parse_id(job_id)[1] for job_id in named])
        permissions = CALLER.get().permissions
        known = {job_id for job_id, queue in queues.items() if permissions.may(Verb.WATCH, queue)}
        if not named <= known:
            raise NotFound(
                "nothing was accepted because jobs to run after do not exist",
                violations=tuple(
                    FieldViolation(
                        field=f"items[{number}].after.job_ids[{place}]", description=f"there is no job {job_id}"
                    )
                    for number, given in enumerate(items.after)
                    for place, job_id in enumerate(given[1] if given else ())
                    if job_id.lower() not in known
                ),
            )

    async def _read_specs(
        self,
        texts: Sequence[Sequence[bytes]],
        extras: Mapping[int, SpecExtras],
        items: ItemColumns,
        queues: Mapping[str, KnownQueue],
    ) -> tuple[list[ReadSpec], ItemColumns]:
        """Return specs, each judged by the policies of the queues that it is for, and items that name them.

        A spec for queues of several policies is read by each, since each may add something of its own; the further
        readings stand behind the request's specs, and what is wrong with them is told of the spec itself.
        """
        policies = {queue.policy for queue in queues.values()}
        if len(policies) <= 1:
            return await self._read_alike(texts, extras, self._specs.of(next(iter(policies), None))), items
        used: list[dict[QueuePolicy | None, int]] = [{} for _ in texts]
        for name, place in zip(items.queues, items.specs, strict=True):
            if name in queues and place < len(texts):
                used[place].setdefault(queues[name].policy, place)
        specs: list[ReadSpec] = []
        further: list[ReadSpec] = []
        for place, text in enumerate(texts):
            judges = map(self._specs.of, used[place] or [None])
            readings = [await self._read_spec(text, extras.get(place, NO_EXTRAS), place, known) for known in judges]
            faults = tuple(fault for reading in readings for fault in reading.violations)
            specs.append(replace(readings[0], violations=faults))
            for policy, reading in zip(list(used[place])[1:], readings[1:], strict=True):
                used[place][policy] = len(texts) + len(further)
                further.append(replace(reading, violations=(), field_faults=(), warnings=()))
        places = [
            used[place][queues[name].policy] if name in queues and place < len(texts) else place
            for name, place in zip(items.queues, items.specs, strict=True)
        ]
        return [*specs, *further], replace(items, specs=places)

    async def _read_alike(
        self, texts: Sequence[Sequence[bytes]], extras: Mapping[int, SpecExtras], known: SpecCache
    ) -> list[ReadSpec]:
        """Return specs that are all judged by one policy; most need nothing to be waited for."""
        specs: list[ReadSpec] = []
        reads = 0
        for place, text in enumerate(texts):
            if place in extras or not all(map(is_json, text)):
                specs.append(await self._read_spec(text, extras.get(place, NO_EXTRAS), place, known))
                continue
            key = spec_hash(text)
            spec = known.find(text, key)
            if spec is None:
                reads += 1
                if reads % _READS_PER_TURN == 0:
                    await asyncio.sleep(0)
                spec = known.read(text, key)
            specs.append(spec)
        METRICS.parsed_specs.inc(reads)
        return specs

    async def _read_spec(
        self, manifests: Sequence[bytes], extras: SpecExtras, number: int, known: SpecCache
    ) -> ReadSpec:
        key = spec_key(manifests, extras)
        spec = known.find(manifests, key)
        if spec is not None:
            return spec
        METRICS.parsed_specs.inc()
        if number % _READS_PER_TURN == _READS_PER_TURN - 1:
            await asyncio.sleep(0)
        if all(map(is_json, (*manifests, *(one.template.encode() for one in extras.groups)))):
            return known.read(manifests, key, extras)
        # Reading YAML takes a hundred times as long.
        converted, groups, violations = await self._threads.compute(
            to_json, manifests, extras.groups, read=self._threads.yaml.read
        )
        if violations:
            return unreadable(key, violations)
        return known.read(converted, key, replace(extras, groups=tuple(groups)))


def _groups_of(spec: job_pb2.JobSpec) -> tuple[PodGroup, ...]:
    """Return the pod groups of a spec."""
    return tuple(
        PodGroup(
            name=one.name,
            minimum=one.min,
            maximum=one.max or one.min,
            template=one.template,
            max_hops=one.max_hops if one.HasField("max_hops") else -1,
            whole_nodes=not one.shares_nodes,
            after=one.after,
        )
        for one in spec.groups
    )


def _rules_of(spec: job_pb2.JobSpec) -> RetryRules | None:
    """Return what a spec says of runs that fail; None for nothing."""
    if not _has_rules(spec):
        return None
    given = spec.retry
    limits = {FailureKind(one.kind): one.max_failed_runs for one in given.by_kind}
    return RetryRules(
        max_failed_runs=given.max_failed_runs,
        by_kind=tuple(sorted(limits.items())),
        first_back_off_s=given.first_back_off.ToMilliseconds() / 1000,
        back_off_factor=given.back_off_factor,
        max_back_off_s=given.max_back_off.ToMilliseconds() / 1000,
        replace_after_s=spec.node_lost.replace_after.ToMilliseconds() / 1000,
        stop_after_s=spec.executor_lost.stop_after.ToMilliseconds() / 1000,
        replaced_members=_replaced_members(spec),
    )


def _has_rules(spec: job_pb2.JobSpec) -> bool:
    """Return whether a spec says anything of runs that fail or are lost."""
    return _says_retry(spec) or _replaced_members(spec) is not ReplacedMembers.NONE


def _says_retry(spec: job_pb2.JobSpec) -> bool:
    """Return whether a spec says anything of runs that fail or are lost as a whole; all that one without groups can."""
    return spec.HasField("retry") or spec.HasField("node_lost") or spec.HasField("executor_lost")


def _replaced_members(spec: job_pb2.JobSpec) -> ReplacedMembers:
    """Return which members are replaced while the others run; none of a job without groups, which has one."""
    return _REPLACED.get(spec.member_failure, ReplacedMembers.NONE) if spec.groups else ReplacedMembers.NONE


def _usable(queues: dict[str, KnownQueue], names: Sequence[str]) -> dict[str, KnownQueue]:
    """Return the queues that the caller may know of, if the caller may submit to all of them.

    Args:
        queues: Queues that exist, by name.
        names: Queue of each item.

    Raises:
        NotPermitted: The caller may know of a queue, and not submit to it; every item of such a queue is listed.
    """
    permissions = CALLER.get().permissions
    if permissions.may_everywhere(Verb.SUBMIT):
        return queues
    seen = {name: queue for name, queue in queues.items() if permissions.sees(name)}
    forbidden = {name for name in seen if not permissions.may(Verb.SUBMIT, name)}
    if forbidden:
        text = "needs submit on queue {}; an administrator can grant it"
        raise NotPermitted(
            "nothing was accepted because the caller may not submit to some queues",
            violations=tuple(
                FieldViolation(field=f"items[{index}].queue", description=text.format(name))
                for index, name in enumerate(names)
                if name in forbidden
            ),
        )
    return seen


def _validated(specs: list[ReadSpec], validation: int) -> tuple[list[ReadSpec], list[job_pb2.SubmitWarning]]:
    """Return specs as a request wants them judged, and what to warn of."""
    if not any(spec.field_faults or spec.warnings for spec in specs):
        return specs, []
    is_strict = validation in _STRICT
    warnings: list[job_pb2.SubmitWarning] = []
    for index, spec in enumerate(specs if validation != job_pb2.MANIFEST_VALIDATION_IGNORE else ()):
        warnings += [
            job_pb2.SubmitWarning(field=f"specs[{index}].{told.field}", description=told.description)
            for told in ((() if is_strict else spec.field_faults) + spec.warnings)
        ]
    if is_strict:
        specs = [
            replace(spec, violations=spec.violations + spec.field_faults) if spec.field_faults else spec
            for spec in specs
        ]
    return specs, warnings[:MAX_FINDING_COUNT]


def _conflict(jobs: AdmittedJobs, conflicts: tuple[tuple[int, str], ...]) -> AlreadyExists:
    return AlreadyExists(
        "nothing was accepted because client ids stand for other jobs",
        violations=tuple(
            FieldViolation(
                field=f"items[{int(jobs.items[job])}].client_id",
                description=f"{client_id!r} was used for another job of the queue; choose another id",
            )
            for job, client_id in conflicts
        ),
    )

"""Submissions as people write them: YAML or JSON files of many documents.

A document is a submission, or a Kubernetes Pod manifest by itself::

    queue: science            # may be left to the caller, as may jobSet
    jobSet: first
    priority: 10
    count: 20
    clientId: tides-1
    labels: {team: tides}
    annotations: {}
    lifetime: 2h              # of a run, until it may be preempted; 0 is at once
    timeLimit: 1d             # a run that takes longer is stopped, and the job fails
    estimate: 45m             # of its run time
    hold: true                # it waits until it is released
    after: {jobIds: [0190...], until: succeeded}   # or ended; or just the list
    operator: true            # it may submit others as its children (docs/operators.md)
    parent: ID                # whose child it is; or {jobId: ID, outlives: true}
    scaling:                  # its pod is resized while it runs (docs/autoscale.md)
      min: {cpu: 500m, memory: 1Gi}
      max: {cpu: 4, memory: 8Gi}
      unit: {cpu: 500m, memory: 1Gi}   # that of the node if left out, as are the targets
      targets: {load: 0.9, memory: 0.75, workingSet: 0.9}
      bundle: false           # movable and off, likewise
    spec:
      manifests: [{apiVersion: v1, kind: Pod, ...}]

A job on several nodes has groups of pods in its spec, and beside them the other objects only, if any::

    spec:
      groups:
      - name: work
        min: 4
        max: 8                # as many as min if left out
        after: head           # a group before it that must be ready first
        maxHops: 2            # in the network, between any two of its pods
        sharesNodes: true     # with other jobs; false if left out
        template: {spec: {containers: [...]}}
      nodeLost: {replaceAfter: 5m}   # of a node that is not heard of; the job may then run twice
      executorLost: {stopAfter: 30m} # of an executor that is not heard of: it stops the run, then another begins
      retry: {maxFailedRuns: 5, byKind: {exit_code: 3}, firstBackOff: 10s, backOffFactor: 2, maxBackOff: 5m}

What `argosy jobs ID -o json` and `argosy submit --dry-run -o json` print are such documents, too: of a job that was
printed, what only its server says (id, state, runs and so on, and its client id) is passed over, so it makes a new job.

Here only the form is checked, so that a mistake is named with its file, document and line before anything is sent; what
the fields may hold is the server's to say.

Source: design section 9; `examples/job.yaml`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argosy_client.batches import MAX_JOB_COUNT
from argosy_client.field_reading import INT32_MAX, FieldReader, kind_text, manifest_text
from argosy_client.places import Place
from argosy_client.scaling_documents import read_scaling_rules
from argosy_client.spec_documents import read_spec
from argosy_client.values import JobDraft, SubmitWarning
from argosy_client.yaml_nodes import Document, Value, read_json, read_yaml
from argosy_core.errors import ArgosyError, FieldViolation, InvalidRequest
from argosy_core.job.reading.families import Parent
from argosy_core.job.reading.pod_groups import PodGroup
from argosy_core.job.reading.retry_rules import RetryRules

__all__ = [
    "MAX_FILE_BYTES",
    "DocumentOptions",
    "name_places",
    "name_warnings",
    "parse_documents",
    "read_documents",
    "read_text",
]

MAX_FILE_BYTES: Final = 256 << 20
"""Largest file read; a hundred full requests."""

_FIELDS: Final = {
    "queue": "queue",
    "jobSet": "job_set",
    "job_set": "job_set",
    "priority": "priority",
    "count": "count",
    "clientId": "client_id",
    "client_id": "client_id",
    "labels": "labels",
    "annotations": "annotations",
    "lifetime": "lifetime",
    "timeLimit": "time_limit",
    "time_limit": "time_limit",
    "estimate": "estimate",
    "hold": "hold",
    "jobSetLimit": "job_set_limit",
    "job_set_limit": "job_set_limit",
    "after": "after",
    "scaling": "scaling",
    "operator": "operator",
    "parent": "parent",
    "spec": "spec",
}
_ANSWERED: Final = frozenset(
    {
        "cancelRequested",
        "clientId",
        "createTime",
        "endTime",
        "held",
        "id",
        "reason",
        "requests",
        "runs",
        "stage",
        "state",
        "submitter",
        "waitReason",
    }
)
"""Fields of a job that was printed which say nothing about another like it."""
_PARENT_FIELDS: Final = {"jobId": "job_id", "job_id": "job_id", "outlives": "outlives"}
_AFTER_WORDS: Final = {
    "succeeded": "succeeded",
    "ended": "ended",
    "AFTER_UNTIL_SUCCEEDED": "succeeded",
    "AFTER_UNTIL_ENDED": "ended",
}
_ITEM_OR_SPEC: Final = re.compile(r"(items|specs)\[(\d+)\]\.?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions:
    """What is said beside the documents, for all of them: it wins over what they say themselves."""

    queue: str = ""
    """Queue; empty if every document names its own."""
    job_set: str = ""
    """Job set; likewise."""
    lifetime_s: int | None = None
    """Seconds of a run until it may be preempted; None for what the document says, or never."""
    time_limit_s: int | None = None
    """Seconds after which a run is stopped; None for what the document says, or never."""
    estimate_s: int | None = None
    """Seconds that a run is expected to take; None for what the document says, if anything."""
    hold: bool = False
    """Whether all jobs are held from the beginning; False for what the document says."""
    job_set_limit: int | None = None
    """Most jobs of a job set that are leased or run at once, 0 for no limit; None for what the document says."""
    count: int | None = None
    """Number of equal jobs of each document; None for what the document says, or 1."""
    after: tuple[str, ...] = ()
    """Ids of other jobs that all jobs begin after; empty for what the document says."""
    after_until: str = "succeeded"
    """Whether these must have `succeeded` or `ended`."""
    parent: str = ""
    """Id of the job whose children all jobs are; empty for what the document says."""


def read_documents(paths: Iterable[str], options: DocumentOptions) -> tuple[JobDraft, ...]:
    """Return the drafts of files, in order; `-` is the standard input.

    Raises:
        InvalidRequest: A file cannot be read or a document is wrong; every wrong document is in the violations.
    """
    drafts: list[JobDraft] = []
    violations: list[FieldViolation] = []
    for path in paths:
        try:
            drafts += parse_documents(read_text(path), source=path, options=options)
        except InvalidRequest as error:
            violations += error.violations or (FieldViolation(field="", description=error.message),)
    _refuse(violations)
    return tuple(drafts)


def parse_documents(text: str, *, source: str, options: DocumentOptions) -> tuple[JobDraft, ...]:
    """Return the drafts of a text, in order.

    Args:
        text: YAML, or JSON if the source ends in .json or .jsonl.
        source: Name of the file, for errors.
        options: What is said beside the documents, for all of them.

    Raises:
        InvalidRequest: The text cannot be parsed or documents are wrong; the violations hold every fault, each as
            `file:line: document n: field: what`.
    """
    reader = read_json if source.endswith((".json", ".jsonl")) else read_yaml
    drafts: list[JobDraft] = []
    violations: list[FieldViolation] = []
    for document in reader(text, source):
        reading = _Reading(document, source=source, options=options)
        draft = reading.draft()
        if reading.violations:
            violations += reading.violations
        elif draft is not None:
            drafts.append(draft)
    _refuse(violations)
    if not drafts:
        raise InvalidRequest(f"{source}: holds no documents")
    return tuple(drafts)


def name_places(error: ArgosyError, drafts: Sequence[JobDraft]) -> ArgosyError:
    """Return what a server said of a submit, with files, lines and documents in place of its numbers of items.

    Args:
        error: The server's answer, with its violations.
        drafts: What was submitted, in order; equal specs travelled once, so a fault of a spec names its first document.
    """
    placed = tuple(
        FieldViolation(field=field, description=description)
        for field, description in _placed(((told.field, told.description) for told in error.violations), drafts)
    )
    if placed == error.violations:
        return error
    # The message repeats the first violations, by the numbers that mean nothing to whoever wrote the file.
    return type(error)(_ITEM_OR_SPEC.split(error.message)[0].rstrip(": "), violations=placed)


def name_warnings(warnings: Sequence[SubmitWarning], drafts: Sequence[JobDraft]) -> tuple[SubmitWarning, ...]:
    """Return what a server warned of in a submit, with files, lines and documents in place of its numbers of items."""
    placed = _placed(((told.field, told.description) for told in warnings), drafts)
    return tuple(SubmitWarning(field=field, description=description) for field, description in placed)


def _placed(told: Iterable[tuple[str, str]], drafts: Sequence[JobDraft]) -> Iterator[tuple[str, str]]:
    """Yield (field, description) with the places of drafts for `items[n]` and `specs[n]`; others as they are."""
    by_spec: dict[tuple[object, ...], Place | None] = {}
    for draft in drafts:
        by_spec.setdefault(draft.spec_key, draft.place)
    places = {"items": [draft.place for draft in drafts], "specs": list(by_spec.values())}

    def place_of(match: re.Match[str]) -> Place | None:
        known, index = places[match[1]], int(match[2])
        return known[index] if index < len(known) else None

    def named(match: re.Match[str]) -> str:
        place = place_of(match)
        return f"{place.of('')} " if place else match[0]

    for field, description in told:
        match = _ITEM_OR_SPEC.match(field)
        place = place_of(match) if match else None
        if match is None or place is None:
            yield field, description
            continue
        rest = field[match.end() :]
        if match[1] == "specs":
            where = place.of_spec(rest)
        else:
            name = next((camel for camel, plain in _FIELDS.items() if plain == rest), rest)
            where = f"{place.of(name)}: {name}" if name else place.of("")
        yield where, _ITEM_OR_SPEC.sub(named, description).strip()


class _Reading(FieldReader):
    """Reads one document and collects what is wrong with it."""

    def __init__(self, document: Document, *, source: str, options: DocumentOptions) -> None:
        is_manifest = isinstance(document.value, dict) and ("kind" in document.value or "apiVersion" in document.value)
        place = Place(source=source, number=document.number, positions=document.positions, is_manifest=is_manifest)
        super().__init__(place)
        self._document = document
        self._options = options

    def draft(self) -> JobDraft | None:
        value = self._document.value
        if not isinstance(value, dict):
            self.fault("", f"must be a mapping with a spec, or a Pod manifest; it is {kind_text(value)}")
            return None
        if self.place.is_manifest:
            if value.get("kind") != "Pod":
                self.fault(
                    "kind",
                    f"a manifest by itself must be a Pod, not {value.get('kind')!r}; put other objects beside "
                    "their pod in spec.manifests",
                )
            return self._make({}, ((manifest_text(value),), (), None))
        fields = self._fields_of(value)
        return self._make(fields, read_spec(self, fields.get("spec")))

    def _fields_of(self, value: Mapping[str, Value]) -> dict[str, Value]:
        if not {"id", "state"} <= value.keys():
            return self.named(value, _FIELDS, "a submission", "")
        if value.get("spec") is None:
            self.fault("spec", "is missing, as in a list of jobs; `argosy jobs ID -o json` prints a job with its spec")
        said = {key: inner for key, inner in value.items() if key not in {*_ANSWERED, "parent"}}
        return self.named(said, _FIELDS, "a submission", "")

    def _make(
        self,
        fields: Mapping[str, Value],
        spec: tuple[tuple[str, ...], tuple[PodGroup, ...], RetryRules | None],
    ) -> JobDraft:
        options = self._options
        # Read even where an option wins, since what is no text there is a mistake anyway.
        queue, job_set = self.text(fields, "queue"), self.text(fields, "job_set")
        queue, job_set = options.queue or queue, options.job_set or job_set
        if not queue and "queue" not in fields:
            self.fault("queue", "is missing: name it in the document or with --queue")
        if not job_set and "job_set" not in fields:
            self.fault("jobSet", "is missing: name it in the document or with --job-set")
        after, until = self._after(fields)
        return JobDraft(
            queue=queue,
            job_set=job_set,
            manifests=spec[0],
            groups=spec[1],
            retry=spec[2],
            priority=self.number(fields, "priority", default=0, least=-INT32_MAX - 1),
            count=self._count(fields),
            client_id=self.text(fields, "client_id"),
            labels=self.texts(fields, "labels"),
            annotations=self.texts(fields, "annotations"),
            lifetime_s=self.duration(fields, "lifetime", options.lifetime_s),
            time_limit_s=self.duration(fields, "time_limit", options.time_limit_s),
            estimate_s=self.duration(fields, "estimate", options.estimate_s),
            hold=options.hold or self.flag(fields, "hold"),
            job_set_limit=self._job_set_limit(fields),
            after=options.after or after,
            after_until=options.after_until if options.after else until,
            scaling=read_scaling_rules(self, fields.get("scaling")),
            operator=self.flag(fields, "operator"),
            parent=self._parent(fields),
            place=self.place,
        )

    def _count(self, fields: Mapping[str, Value]) -> int:
        """Return the number of equal jobs; what the document says is read even where an option wins."""
        said = self.number(fields, "count", default=1, least=1, most=MAX_JOB_COUNT)
        return self._options.count or said

    def _job_set_limit(self, fields: Mapping[str, Value]) -> int:
        """Return how many jobs of the set run at once; what the document says is read even where an option wins."""
        said = self.number(fields, "job_set_limit", default=0, least=0)
        return said if self._options.job_set_limit is None else self._options.job_set_limit

    def _parent(self, fields: Mapping[str, Value]) -> Parent | None:
        """Return whose child the job is; what the document says is read even where an option wins."""
        value = fields.get("parent")
        said = value if isinstance(value, dict) else {"jobId": value}
        known = self.named(said, _PARENT_FIELDS, "parent", "parent.")
        job_id, outlives = known.get("job_id"), self.flag(known, "outlives", path="parent.")
        if value is not None and not (isinstance(job_id, str) and job_id):
            self.fault("parent", "must be a job id, or a mapping with jobId and with outlives")
        job_id = self._options.parent or job_id
        return Parent(job_id=job_id, outlives=outlives) if isinstance(job_id, str) and job_id else None

    def _after(self, fields: Mapping[str, Value]) -> tuple[tuple[str, ...], str]:
        """Return the ids of other jobs, and whether they must have succeeded or ended."""
        value = fields.get("after", [])
        ids: Value = value
        until: Value = "succeeded"
        if isinstance(value, dict):
            ids, until = value.get("jobIds", value.get("jobs")), value.get("until") or until
        if not isinstance(ids, list) or not all(isinstance(job_id, str) for job_id in ids):
            self.fault("after", "must be a list of job ids, or a mapping with the list jobIds and with until")
        elif isinstance(value, dict) and not (set(value) <= {"jobIds", "jobs", "until"} and ids):
            self.fault("after", "has the fields jobIds, at least one, and until")
        elif _AFTER_WORDS.get(str(until)) is None:
            self.fault("after.until", "must be succeeded or ended")
        else:
            return tuple(map(str, ids)), _AFTER_WORDS[str(until)]
        return (), "succeeded"


def _refuse(violations: list[FieldViolation]) -> None:
    if violations:
        raise InvalidRequest("\n".join(violation.description for violation in violations), violations=tuple(violations))


def read_text(path: str) -> str:
    """Return what a file says; `-` is the standard input.

    Raises:
        InvalidRequest: It cannot be read, is too large, or no UTF-8.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except OSError as cause:
        raise InvalidRequest(f"{path}: cannot be read: {cause.strerror or cause}") from cause
    if len(data) > MAX_FILE_BYTES:
        raise InvalidRequest(f"{path}: is larger than {MAX_FILE_BYTES >> 20} MiB; cut it into several files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data.count(b"\n", 0, cause.start) + 1
        raise InvalidRequest(f"{path}:{line}: is not UTF-8 text") from cause

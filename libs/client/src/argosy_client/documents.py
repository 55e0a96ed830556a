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

What `argosy jobs ID -o json` and `argosy submit --dry-run -o json` print are such documents, too: of a job that was
printed, what only its server says (id, state, runs and so on, and its client id) is passed over, so it makes a new job.

Here only the form is checked, so that a mistake is named with its file, document and line before anything is sent; what
the fields may hold is the server's to say.

Source: design section 9; `examples/job.yaml`.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from argosy_client.batches import MAX_JOB_COUNT
from argosy_client.durations import parse_duration_s
from argosy_client.places import Place
from argosy_client.values import JobDraft, SubmitWarning
from argosy_client.yaml_nodes import Document, Value, read_json, read_yaml
from argosy_core.errors import ArgosyError, FieldViolation, InvalidRequest
from argosy_core.job.pod_groups import MAX_MEMBER_COUNT, PodGroup

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
    "after": "after",
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
_GROUP_FIELDS: Final = {
    "name": "name",
    "min": "min",
    "max": "max",
    "maxHops": "max_hops",
    "max_hops": "max_hops",
    "sharesNodes": "shares_nodes",
    "shares_nodes": "shares_nodes",
    "after": "after",
    "template": "template",
}
_MAX_HOPS: Final = 100
_INT32_MAX: Final = 2**31 - 1
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
    count: int | None = None
    """Number of equal jobs of each document; None for what the document says, or 1."""
    after: tuple[str, ...] = ()
    """Ids of other jobs that all jobs begin after; empty for what the document says."""
    after_until: str = "succeeded"
    """Whether these must have `succeeded` or `ended`."""


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
        by_spec.setdefault(draft.manifests + draft.groups, draft.place)
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
            name = _spelling(rest)
            where = f"{place.of(name)}: {name}" if name else place.of("")
        yield where, _ITEM_OR_SPEC.sub(named, description).strip()


class _Reading:
    """Reads one document and collects what is wrong with it."""

    def __init__(self, document: Document, *, source: str, options: DocumentOptions) -> None:
        self.violations: list[FieldViolation] = []
        self._document = document
        is_manifest = isinstance(document.value, dict) and ("kind" in document.value or "apiVersion" in document.value)
        self._place = Place(
            source=source, number=document.number, positions=document.positions, is_manifest=is_manifest
        )
        self._options = options

    def draft(self) -> JobDraft | None:
        value = self._document.value
        if not isinstance(value, dict):
            self._fault("", f"must be a mapping with a spec, or a Pod manifest; it is {_kind_text(value)}")
            return None
        if self._place.is_manifest:
            if value.get("kind") != "Pod":
                self._fault(
                    "kind",
                    f"a manifest by itself must be a Pod, not {value.get('kind')!r}; put other objects beside "
                    "their pod in spec.manifests",
                )
            return self._make({}, (_manifest_text(value),), ())
        fields = self._fields_of(value)
        spec = fields.get("spec")
        groups = self._groups_of(spec["groups"]) if isinstance(spec, dict) and "groups" in spec else ()
        return self._make(fields, self._manifests_of(spec, has_groups=bool(groups)), groups)

    def _fields_of(self, value: Mapping[str, Value]) -> dict[str, Value]:
        if not {"id", "state"} <= value.keys():
            return self._named(value, _FIELDS, "a submission", "")
        if value.get("spec") is None:
            self._fault("spec", "is missing, as in a list of jobs; `argosy jobs ID -o json` prints a job with its spec")
        said = {key: inner for key, inner in value.items() if key not in _ANSWERED}
        return self._named(said, _FIELDS, "a submission", "")

    def _named(self, value: Mapping[str, Value], known: Mapping[str, str], what: str, path: str) -> dict[str, Value]:
        """Return the fields of a mapping by our names; those that nobody knows are faults."""
        fields: dict[str, Value] = {}
        for key, inner in value.items():
            if inner is None:  # null is not set, as in the API's JSON
                continue
            name = known.get(key)
            if name is None:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
                self._fault(f"{path}{key}", f"is no field of {what}{hint}")
            elif name in fields:
                self._fault(f"{path}{key}", "is given twice, in two spellings")
            else:
                fields[name] = inner
        return fields

    def _groups_of(self, value: Value) -> tuple[PodGroup, ...]:
        """Return the groups of a spec."""
        if not isinstance(value, list) or not value:
            self._fault("spec.groups", "must be a list of groups of pods")
            return ()
        return tuple(self._group_of(group, f"spec.groups[{index}]") for index, group in enumerate(value))

    def _group_of(self, value: Value, path: str) -> PodGroup:
        if not isinstance(value, dict):
            self._fault(path, f"must be a mapping with name, min and template, not {_kind_text(value)}")
            value = {}
        fields = self._named(value, _GROUP_FIELDS, "a group", f"{path}.")
        template = fields.get("template")
        template = _parsed(template) if isinstance(template, str) else template
        if not isinstance(template, dict):
            self._fault(f"{path}.template", "must be a pod: a mapping with spec, and with metadata if it has any")
            template = {}
        minimum = self._number(fields, "min", default=1, least=1, most=MAX_MEMBER_COUNT, path=f"{path}.")
        if "min" not in fields:
            self._fault(f"{path}.min", "is missing: how many pods the job cannot begin without")
        return PodGroup(
            name=self._text(fields, "name", path=f"{path}."),
            minimum=minimum,
            maximum=self._number(fields, "max", default=minimum, least=1, most=MAX_MEMBER_COUNT, path=f"{path}."),
            template=_manifest_text({"apiVersion": "v1", "kind": "Pod", **template}),
            max_hops=self._number(fields, "max_hops", default=-1, least=0, most=_MAX_HOPS, path=f"{path}."),
            whole_nodes=not self._flag(fields, "shares_nodes", path=f"{path}."),
            after=self._text(fields, "after", path=f"{path}."),
        )

    def _manifests_of(self, spec: Value, *, has_groups: bool) -> tuple[str, ...]:
        manifests = spec.get("manifests", [] if has_groups else None) if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(manifests, list):
            self._fault("spec", "must hold manifests: a list of Kubernetes objects, at least one of them a Pod")
            return ()
        manifests = [_parsed(manifest) if isinstance(manifest, str) else manifest for manifest in manifests]
        self._named(spec, {"manifests": "manifests", "groups": "groups"}, "a spec", "spec.")
        kinds = []
        for index, manifest in enumerate(manifests):
            path = f"spec.manifests[{index}]"
            if not isinstance(manifest, dict):
                self._fault(path, f"must be a Kubernetes object, not {_kind_text(manifest)}")
            elif not isinstance(manifest.get("kind"), str):
                self._fault(f"{path}.kind", "is missing: the kind of the Kubernetes object, as in Pod")
            else:
                kinds.append(manifest["kind"])
        if len(kinds) == len(manifests) and "Pod" not in kinds and not has_groups:
            self._fault("spec.manifests", "hold no Pod")
        return tuple(_manifest_text(manifest) for manifest in manifests)

    def _make(self, fields: Mapping[str, Value], manifests: tuple[str, ...], groups: tuple[PodGroup, ...]) -> JobDraft:
        options = self._options
        # Read even where an option wins, since what is no text there is a mistake anyway.
        queue, job_set = self._text(fields, "queue"), self._text(fields, "job_set")
        queue, job_set = options.queue or queue, options.job_set or job_set
        if not queue and "queue" not in fields:
            self._fault("queue", "is missing: name it in the document or with --queue")
        if not job_set and "job_set" not in fields:
            self._fault("jobSet", "is missing: name it in the document or with --job-set")
        after, until = self._after(fields)
        return JobDraft(
            queue=queue,
            job_set=job_set,
            manifests=manifests,
            groups=groups,
            priority=self._number(fields, "priority", default=0, least=-_INT32_MAX - 1),
            count=self._count(fields),
            client_id=self._text(fields, "client_id"),
            labels=self._texts(fields, "labels"),
            annotations=self._texts(fields, "annotations"),
            lifetime_s=self._duration(fields, "lifetime", options.lifetime_s),
            time_limit_s=self._duration(fields, "time_limit", options.time_limit_s),
            estimate_s=self._duration(fields, "estimate", options.estimate_s),
            hold=options.hold or self._flag(fields, "hold"),
            after=options.after or after,
            after_until=options.after_until if options.after else until,
            place=self._place,
        )

    def _text(self, fields: Mapping[str, Value], name: str, *, path: str = "") -> str:
        value = fields.get(name, "")
        if isinstance(value, str) and (value or name not in fields):
            return value
        self._fault(
            path + _spelling(name), f"must be a text, not {_kind_text(value)}; quote it if it looks like a number"
        )
        return ""

    def _number(
        self,
        fields: Mapping[str, Value],
        name: str,
        *,
        default: int,
        least: int,
        most: int = _INT32_MAX,
        path: str = "",
    ) -> int:
        if name not in fields:
            return default
        value = fields[name]
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        shown = f"{value}" if isinstance(value, int) and not isinstance(value, bool) else _kind_text(value)
        self._fault(path + _spelling(name), f"must be a whole number from {least} to {most}, not {shown}")
        return default

    def _count(self, fields: Mapping[str, Value]) -> int:
        """Return the number of equal jobs; what the document says is read even where an option wins."""
        said = self._number(fields, "count", default=1, least=1, most=MAX_JOB_COUNT)
        return self._options.count or said

    def _after(self, fields: Mapping[str, Value]) -> tuple[tuple[str, ...], str]:
        """Return the ids of other jobs, and whether they must have succeeded or ended."""
        value = fields.get("after", [])
        ids: Value = value
        until: Value = "succeeded"
        if isinstance(value, dict):
            ids, until = value.get("jobIds", value.get("jobs")), value.get("until") or until
        if not isinstance(ids, list) or not all(isinstance(job_id, str) for job_id in ids):
            self._fault("after", "must be a list of job ids, or a mapping with the list jobIds and with until")
        elif isinstance(value, dict) and not (set(value) <= {"jobIds", "jobs", "until"} and ids):
            self._fault("after", "has the fields jobIds, at least one, and until")
        elif _AFTER_WORDS.get(str(until)) is None:
            self._fault("after.until", "must be succeeded or ended")
        else:
            return tuple(map(str, ids)), _AFTER_WORDS[str(until)]
        return (), "succeeded"

    def _flag(self, fields: Mapping[str, Value], name: str, *, path: str = "") -> bool:
        value = fields.get(name, False)
        if isinstance(value, bool):
            return value
        self._fault(path + _spelling(name), f"must be true or false, not {_kind_text(value)}")
        return False

    def _duration(self, fields: Mapping[str, Value], name: str, option: int | None) -> int | None:
        if option is not None or name not in fields:
            return option
        value = fields[name]
        if value == 0 and not isinstance(value, bool):
            return 0
        if not isinstance(value, str):
            what = "a number needs its unit" if _kind_text(value) == "a number" else f"not {_kind_text(value)}"
            self._fault(_spelling(name), f"must be a duration, as 90s, 1h30m or 7d; {what}")
            return None
        try:
            return parse_duration_s(value)
        except InvalidRequest as error:
            self._fault(_spelling(name), error.message)
            return None

    def _texts(self, fields: Mapping[str, Value], name: str) -> dict[str, str]:
        value = fields.get(name, {})
        if not isinstance(value, dict):
            self._fault(name, f"must be a mapping of texts, not {_kind_text(value)}")
            return {}
        texts = {}
        for key, text in value.items():
            if isinstance(text, str):
                texts[key] = text
            else:
                self._fault(f"{name}.{key}", f"must be a text, not {_kind_text(text)}; quote it")
        return texts

    def _fault(self, path: str, what: str) -> None:
        place = self._place.of(path)
        self.violations.append(
            FieldViolation(field=path, description=f"{place}: {path}: {what}" if path else f"{place}: {what}")
        )


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


def _parsed(manifest: str) -> Value:
    """Return what a manifest says that stands as JSON text, as in the API's own JSON; as it is if it is none."""
    try:
        found: Value = json.loads(manifest)
    except ValueError:
        return manifest
    return found


def _manifest_text(manifest: Value) -> str:
    text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair is no text


def _spelling(name: str) -> str:
    return next((camel for camel, plain in (_FIELDS | _GROUP_FIELDS).items() if plain == name), name)


def _kind_text(value: Value) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return {str: "a text", list: "a list", dict: "a mapping"}[type(value)] if value != "" else "empty"

"""Creating a batch of objects: bags side by side, the objects of one bag in order, each answered for itself.

A create that was not answered is made again: its name is the run's own, so the second answer (AlreadyExists) tells what
became of the first, and reading the object tells whose it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_core.reconcile import Creates
from argosy_kube.kubernetes.acting.rendering import ObjectTemplate, TemplateCache
from argosy_kube.kubernetes.api.answers import CONFLICT, FORBIDDEN, KEYS_ONLY, MISSING, ApiFailure, decode
from argosy_kube.kubernetes.api.documents import FOUND_KEY, FOUND_POD, KEYS, FoundPod
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.resources import PODS, Resource, not_granted
from argosy_kube.kubernetes.api.transport import JSON, ApiServer
from argosy_kube.kubernetes.ours.binding import PodBinder
from argosy_kube.kubernetes.ours.ownership import is_own
from argosy_kube.kubernetes.ours.places import PlaceIndex
from argosy_kube.kubernetes.reading.columns import read_run, uid_bytes
from argosy_kube.port import CreateCode, CreateResult
from argosy_kube.tables import TextTable

__all__ = ["Creator"]

_ALREADY_EXISTS: Final = "AlreadyExists"
_NO_UID: Final = bytes(16)


@dataclass(slots=True)
class _Answer:
    """What became of one object."""

    code: CreateCode
    uid: bytes = _NO_UID
    run: tuple[int, int, int] | None = None
    message: str = ""
    is_silent: bool = False
    """The API server did not answer at all."""


_NOT_TRIED: Final = _Answer(CreateCode.UNAVAILABLE, message="not tried: the API server did not answer other calls")


class Creator:
    """Creates objects of one installation.

    Args:
        server: Where.
        templates: Renders them.
        installation: Whose objects are ours.
        places: Where new objects are noted.
        restore: Gives an object of ours, by uid and run, its labels back.
        use: Called with each kind before its first object is made.
        binder: Binds pods that were made without a node.
    """

    def __init__(
        self,
        server: ApiServer,
        templates: TemplateCache,
        *,
        installation: str,
        places: PlaceIndex,
        restore: Callable[[bytes, tuple[int, int, int]], None],
        use: Callable[[Resource], None],
        binder: PodBinder,
    ) -> None:
        """Create nothing yet."""
        self._restore = restore
        self._server = server
        self._templates = templates
        self._settings = server.settings
        self._installation = installation
        self._places = places
        self._use = use
        self._binder = binder

    async def create(self, batch: Creates, *, budget_s: float) -> CreateResult:
        """Create the objects of a batch; see Cluster.create_objects.

        Args:
            batch: The objects.
            budget_s: Time after which no object is begun any more; those left are answered UNAVAILABLE.

        Raises:
            BackendUnavailable: The API server answered nothing about any of them.
        """
        answers: list[_Answer] = [_NOT_TRIED] * len(batch)
        bags = _bags(batch)
        deadline_s = asyncio.get_running_loop().time() + budget_s
        queue = iter(bags)
        state = _Progress(deadline_s)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._settings.concurrency, len(bags))):
                group.create_task(self._work(batch, queue, answers, state))
        if len(batch) and all(answer.is_silent or answer is _NOT_TRIED for answer in answers):
            raise BackendUnavailable(f"creating objects: {state.silence or 'no time left'}")
        return _result(answers)

    async def _work(self, batch: Creates, queue: Iterator[list[int]], answers: list[_Answer], state: _Progress) -> None:
        """Create bag after bag until there are none left, or no point."""
        loop = asyncio.get_running_loop()
        for rows in queue:
            for row in rows:
                if state.silence or loop.time() > state.deadline_s:
                    return
                answer = answers[row] = await self._create(batch, row)
                if answer.is_silent:
                    state.silence = answer.message

    async def _create(self, batch: Creates, row: int) -> _Answer:
        try:
            template = await self._templates.find(batch, row)
        except InvalidRequest as error:
            return _Answer(CreateCode.REJECTED, message=error.message)
        except ApiFailure as failure:
            return _refusal(failure)
        self._use(template.resource)
        handle, ordinal = int(batch.handle_column[row]), int(batch.ordinal_column[row])
        run = (handle, ordinal, int(batch.object_column[row]))
        node_row = int(batch.node_column[row])
        node = batch.nodes[node_row] if node_row >= 0 else ""
        body = template.body(handle, ordinal, int(batch.id_high_column[row]), node)
        try:
            for is_last in (False, True):
                try:
                    posted = await self._server.call(
                        "POST", template.path, priority=Priority.CREATE, body=body, accept=KEYS_ONLY
                    )
                    metadata = decode(KEYS, posted).metadata
                except ApiFailure as failure:
                    if failure.is_unreadable and not is_last:
                        continue  # it was made, as the next answer tells
                    if failure.code != CONFLICT or failure.reason != _ALREADY_EXISTS:
                        return _refusal(failure, template.resource, is_of_creation=True)
                    found = await self._read_existing(template, template.name(handle, ordinal))
                    if found is None and not is_last:
                        continue  # it went meanwhile
                    if found is None:
                        return _Answer(CreateCode.UNAVAILABLE, message=failure.message)
                    return await self._adopt(found, node, template, run)
                self._places.add(uid_bytes(metadata.uid), template.resource, metadata, run)
                await self._binder.bind(metadata, node, template.resource)
                return _Answer(CreateCode.CREATED, uid_bytes(metadata.uid))
        except ApiFailure as failure:
            return _refusal(failure, template.resource)
        raise AssertionError("unreachable")

    async def _read_existing(self, template: ObjectTemplate, name: str) -> FoundPod | None:
        path = template.resource.path(template.namespace, name)
        try:
            accept = JSON if template.resource == PODS else KEYS_ONLY  # what is in a secret does not travel
            body = await self._server.call("GET", path, priority=Priority.READ, accept=accept)
        except ApiFailure as failure:
            if failure.code == MISSING:
                return None
            raise
        if template.resource == PODS:
            return decode(FOUND_POD, body)
        return FoundPod(metadata=decode(FOUND_KEY, body).metadata)

    async def _adopt(
        self, found: FoundPod, node: str, template: ObjectTemplate, wanted: tuple[int, int, int]
    ) -> _Answer:
        """Say whose an object is that has the name of a run's object; finish what a former call of ours began."""
        metadata = found.metadata
        run = read_run(metadata, self._installation)
        uid = uid_bytes(metadata.uid)
        if run != wanted and is_own(metadata, wanted, installation=self._installation):
            run = wanted
            self._places.add(uid, template.resource, metadata, run)
            self._restore(uid, run)
        if run is not None:
            self._places.add(uid, template.resource, metadata, run)
            if not found.spec.node_name and metadata.deletion_timestamp is None:
                await self._binder.bind(metadata, node, template.resource)
        return _Answer(CreateCode.EXISTS, uid, run)


@dataclass(slots=True)
class _Progress:
    """What the workers of one batch share."""

    deadline_s: float
    silence: str = ""


def _bags(batch: Creates) -> list[list[int]]:
    """Return the rows of each bag, in order."""
    if not batch.object_column.any():
        return [[row] for row in range(len(batch))]
    bags: dict[tuple[int, int], list[int]] = {}
    runs = zip(batch.handle_column.tolist(), batch.ordinal_column.tolist(), strict=True)
    for row, run in enumerate(runs):
        bags.setdefault(run, []).append(row)
    return list(bags.values())


def _refusal(failure: ApiFailure, resource: Resource = PODS, *, is_of_creation: bool = False) -> _Answer:
    """Return the answer for an object that was not made, or may not have been.

    A right that is missing says that there is no object only if it is the one to make it.

    A right to make custom objects nobody may have meant to give; one that is missing for anything else is no word about
    the object.
    """
    if (
        failure.is_quota
        or failure.is_of_namespace
        or failure.is_broken_webhook
        or (is_of_creation and failure.lacks_right and not resource.is_custom)
    ):
        return _Answer(CreateCode.QUOTA, message=failure.message)
    if resource.is_custom and failure.is_refused_right and failure.code == FORBIDDEN:
        return _Answer(CreateCode.REJECTED, message=not_granted(resource, failure))
    if resource.is_custom and failure.code == MISSING and failure.details.kind != "namespaces":
        text = f"the cluster has no kind {resource.kind} of {resource.api_version} any more"
        return _Answer(CreateCode.REJECTED, message=text)
    if failure.may_pass or failure.is_refused_right:
        return _Answer(CreateCode.UNAVAILABLE, message=failure.message, is_silent=failure.code == 0)
    return _Answer(CreateCode.REJECTED, message=failure.message)


def _result(answers: list[_Answer]) -> CreateResult:
    texts = TextTable()
    count = len(answers)
    messages = [texts.intern(answer.message) if answer.message else -1 for answer in answers]
    runs = [answer.run or (0, 0, 0) for answer in answers]
    return CreateResult(
        code_column=np.array([answer.code for answer in answers], dtype=np.int8),
        uid_column=np.frombuffer(b"".join([answer.uid for answer in answers]), dtype=np.uint8).reshape(count, 16),
        existing_ours_column=np.array([answer.run is not None for answer in answers], dtype=np.bool_),
        existing_handle_column=np.array([run[0] for run in runs], dtype=np.int64),
        existing_ordinal_column=np.array([run[1] for run in runs], dtype=np.int64),
        message_column=np.array(messages, dtype=np.int32),
        messages=texts.texts,
    )

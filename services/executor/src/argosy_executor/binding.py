"""Binding by plugins: what they make themselves the executor does not create.

Source: seed 002 "Bind"; `docs/plugins.md`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from argosy_core.framework import BindBatch, objects
from argosy_core.job.tables.members import Members
from argosy_core.reconcile import CreateResponses, Creates
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity
from argosy_executor.cluster_codec import create_responses

__all__ = ["bind_batch", "create_others"]


def bind_batch(creates: Creates, installation: str) -> BindBatch:
    """Return objects to be made as plugins see them; nothing is rendered before it is asked for."""
    template = cache(BagTemplate)

    def render(line: int) -> dict[str, Any]:
        text = creates.metadata[index] if (index := int(creates.metadata_column[line])) >= 0 else b"{}"
        metadata = json.loads(text)
        queue, job_set = creates.owners[creates.owner_column[line]]
        run = RunIdentity(
            installation=installation,
            handle=int(creates.handle_column[line]),
            ordinal=int(creates.ordinal_column[line]),
            id_high=int(creates.id_high_column[line]),
            queue=queue,
            job_set=job_set,
            node=creates.nodes[creates.node_column[line]],
            labels=metadata.get("labels", {}),
            annotations=metadata.get("annotations", {}),
        )
        return template(creates.bodies[creates.body_column[line]]).render(int(creates.object_column[line]), run)

    members = Members(creates.handle_column, creates.ordinal_column)
    owners = [creates.owners[owner] for owner in creates.owner_column.tolist()]
    return BindBatch(
        handle=creates.handle_column,
        attempt=members.attempt,
        member=members.member,
        position=creates.object_column,
        node=objects(creates.nodes[node] for node in creates.node_column.tolist()),
        queue=objects(queue for queue, _ in owners),
        job_set=objects(job_set for _, job_set in owners),
        line=np.arange(len(creates)),
        render=render,
    )


async def create_others(
    creates: Creates,
    bound: tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], dict[int, str]],
    create: Callable[[Creates], Awaitable[CreateResponses]],
) -> CreateResponses:
    """Create what no plugin has made; return what became of everything.

    What a plugin has made is not known to be there before the cluster shows it; what one failed on is put off.

    Args:
        creates: Everything.
        bound: What `Framework.bind` answered.
        create: Creates objects, at least one.
    """
    made, failed = bound
    answers = create_responses(creates, None)
    later, message = answers.later_column.copy(), answers.message_column.copy()
    left = ~made
    left[list(failed)] = False
    others = np.flatnonzero(left)
    if others.size:
        part = await create(creates.take(others))
        columns = {}
        for name in ("exists_column", "refused_column", "later_column", "uid_column", "message_column"):
            columns[name] = getattr(answers, name).copy()
            columns[name][others] = getattr(part, name)
        later, message = columns["later_column"], columns["message_column"]
        answers = replace(answers, **columns, messages=part.messages)
    texts = list(answers.messages)
    for line, text in failed.items():
        later[line], message[line] = True, len(texts)
        texts.append(text)
    return replace(answers, later_column=later, message_column=message, messages=tuple(texts))

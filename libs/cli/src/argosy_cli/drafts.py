"""A command as a job without a manifest: what is submitted of it, and the submit.

Source: design section 9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from argosy_cli.job_ids import whole_ids
from argosy_cli.option_faults import name_options
from argosy_cli.output import shown
from argosy_core.errors import AlreadyExists, ArgosyError, InvalidRequest, NotFound

if TYPE_CHECKING:
    from argosy_client import ArgosyClient, JobDraft
    from argosy_core.job.reading.scaling_rules import ScalingRules

__all__ = ["DEFAULT_QUEUE", "MOST_SCRIPT_BYTES", "Array", "make_drafts", "submit_drafts"]

DEFAULT_QUEUE: Final = "default"
"""Made by whoever first submits to it, where no queue is named."""
MOST_SCRIPT_BYTES: Final = 200_000
"""A config map holds a mebibyte, a manifest of ours 256 KiB with its JSON escapes."""
_SCRIPT_DIRECTORY: Final = "/argosy"
_NOBODY: Final = 65534  # the user of that name in nearly every image; no file is its own
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,30}[a-z0-9])?")


class Array(NamedTuple):
    """Which jobs an array has."""

    indices: tuple[int, ...]
    """Their indices, in order, each once."""
    limit: int = 0
    """Most that run at once; 0 for no limit."""


def make_drafts(  # noqa: PLR0913 - one parameter per option
    queue: str,
    command: tuple[str, ...],
    *,
    name: str,
    array: Array | None,
    time_limit_s: int | None,
    priority: int,
    autoscale: str | None = None,
    members: tuple[int, int] | None = None,
    share_nodes: bool = False,
    member_failure: str | None = None,
    **pod: Any,  # noqa: ANN401 - options of the pod
) -> list[JobDraft]:
    """Return what to submit: one draft, or one for each index of an array.

    Raises:
        InvalidRequest: An option says what cannot be.
    """
    import json
    import uuid

    from argosy_client import JobDraft, PodGroup
    from argosy_client.spec_documents import MEMBER_FAILURES
    from argosy_core.job.reading.retry_rules import RetryRules

    if share_nodes and not members:
        raise InvalidRequest("--share-nodes is about the pods of --members; a job of one pod shares its node anyway")
    if member_failure and not members:
        raise InvalidRequest("--member-failure is about the pods of --members; --time and retries are for every job")
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"--name {name[:40]!r} must be at most 32 of a-z, 0-9 and '-', not '-' at the ends")
    if autoscale and members:
        raise InvalidRequest("--autoscale is for jobs of one pod; leave out --members")
    scaling = _scaling(autoscale, (pod["cpu"], pod["mem"])) if autoscale else None
    job_set = f"{name}-{uuid.uuid4().hex[:8]}"
    drafts = []
    indices = array.indices if array else ()
    for index in indices or (None,):
        manifests = [json.dumps(one) for one in _manifests(name, command, index, len(indices), **pod)]
        group = members and PodGroup(
            name=name, minimum=members[0], maximum=members[1], template=manifests.pop(), whole_nodes=not share_nodes
        )
        drafts.append(
            JobDraft(
                queue=queue,
                job_set=job_set,
                manifests=tuple(manifests),
                groups=(group,) if group else (),
                retry=RetryRules(replaced_members=MEMBER_FAILURES[member_failure]) if member_failure else None,
                priority=priority,
                labels={} if index is None else {"array-index": str(index)},
                time_limit_s=time_limit_s,
                job_set_limit=array.limit if array else 0,
                scaling=scaling,
            )
        )
    return drafts


def _scaling(times: str, size: tuple[str, str]) -> ScalingRules:
    """Return within what a pod is resized.

    Args:
        times: MIN-MAX, how many times its size.
        size: What it begins with, by resource of SCALED.

    Raises:
        InvalidRequest: It is no range, or does not hold the size itself.
    """
    from argosy_core.job.reading.scaling_rules import ScalingRules
    from argosy_core.resources import format_amount, parse_quantity

    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?)-(\d{1,3}(?:\.\d{1,3})?)", times)
    least, most = map(float, match.groups()) if match else (0.0, 0.0)
    if not 0 < least <= 1 <= most:
        raise InvalidRequest(
            f"--autoscale {times[:40]!r} must be MIN-MAX with MIN at most 1 and MAX at least 1, as 1-8 or 0.5-4:"
            " how many times --cpu and --mem the pod may have, which it begins with"
        )
    amounts = [(name, parse_quantity(name, text)) for name, text in zip(("cpu", "memory"), size, strict=True)]
    low, high = (
        tuple(format_amount(name, max(math.ceil(amount * ratio), 1)) for name, amount in amounts)
        for ratio in (least, most)
    )
    return ScalingRules(least=low, most=high, unit=low)


def _manifests(  # noqa: PLR0913 - one parameter per option
    name: str,
    command: tuple[str, ...],
    index: int | None,
    index_count: int,
    *,
    image: str,
    cpu: str,
    mem: str,
    gpu: int,
    variables: tuple[str, ...],
    script: Path | None,
    root: bool = False,
) -> list[dict[str, Any]]:
    env = []
    if index is not None:
        env += [
            {"name": "ARGOSY_ARRAY_INDEX", "value": str(index)},
            {"name": "ARGOSY_ARRAY_COUNT", "value": str(index_count)},
        ]
    for variable in variables:
        key, equals, value = variable.partition("=")
        if not key or not equals:
            raise InvalidRequest(f"--env {variable[:40]!r} is no NAME=VALUE")
        env.append({"name": key, "value": value})  # may name those above, as $(ARGOSY_ARRAY_INDEX)
    devices = {"nvidia.com/gpu": gpu} if gpu else {}
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "env": env,
        "resources": {"requests": {"cpu": cpu, "memory": mem, **devices}, "limits": {"memory": mem, **devices}},
    }
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if not root:
        spec["securityContext"] = {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name if index is None else f"{name}-{index}"},
        "spec": spec,
    }
    if script is None:
        if not command:
            raise InvalidRequest("there is nothing to run; write the command behind --, or give a --script")
        container["command"] = list(command)
        return [pod]
    config_map = f"{name}-script"
    container["command"] = [f"{_SCRIPT_DIRECTORY}/{script.name}", *command]
    container["volumeMounts"] = [{"name": "script", "mountPath": _SCRIPT_DIRECTORY}]
    spec["volumes"] = [{"name": "script", "configMap": {"name": config_map, "defaultMode": 0o555}}]
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": config_map},
            "data": {script.name: _script_text(script)},
        },
        pod,
    ]


def _script_text(script: Path) -> str:
    """Return what a script says.

    Raises:
        InvalidRequest: It is too long, no text, or has a name that no key of a config map can have.
    """
    data = script.read_bytes()
    if len(data) > MOST_SCRIPT_BYTES:
        raise InvalidRequest(
            f"{script} has {len(data):,} bytes, at most {MOST_SCRIPT_BYTES:,} travel along; put it into the image"
        )
    if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", script.name):
        raise InvalidRequest(f"{script.name!r} is no name for a script; use letters, digits, '-', '_' and '.'")
    try:
        return data.decode()
    except UnicodeDecodeError as cause:
        raise InvalidRequest(f"{script} is no UTF-8 text; programs belong into the image") from cause


async def submit_drafts(
    client: ArgosyClient,
    drafts: list[JobDraft],
    after: tuple[str, ...],
    *,
    makes_queue: bool,
    options: Mapping[str, str],
) -> list[str]:
    """Submit drafts, and make the default queue if it is missing and nobody named another; return the ids.

    Args:
        client: Of the server.
        drafts: What is submitted.
        after: Ids, or ends of ids, of jobs that have to end before.
        makes_queue: Whether nobody named a queue.
        options: What fills which field, as `name_options` takes it.

    Raises:
        ArgosyError: It is refused; options are named in place of fields.
    """
    from argosy_client import Queue
    from argosy_client.batches import split_drafts

    ids: list[str] = []
    others = await whole_ids(client, after)
    for part in split_drafts([replace(draft, after=others) for draft in drafts]):
        try:
            answer = await client.submit_checked(part)
        except NotFound as error:
            if not makes_queue or ids:
                raise name_options(error, options) from error
            try:
                await client.create_queue(Queue(name=DEFAULT_QUEUE))
            except AlreadyExists:
                click.echo("somebody else made the queue", err=True)
            answer = await client.submit_checked(part)
        except ArgosyError as error:
            raise name_options(error, options) from error
        ids += answer.job_ids
        for told in answer.warnings:
            click.echo(shown(f"warning: {told.description}"), err=True)
    return ids

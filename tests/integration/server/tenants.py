"""A server with the queues and jobs of two tenants, where every caller has a token and every role a holder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml

from argosy.api.v1 import access_pb2, job_pb2, queue_pb2
from argosy.channel_credentials import hash_token
from argosy_core.access import Role, Verb
from argosy_runtime.access.guard import AccessSettings
from argosy_runtime.grpc_server import GrpcSettings

OWN, OTHERS, ABSENT = "red", "blue", "green"
ROLES: Mapping[str, frozenset[str]] = {
    "admin": frozenset(Verb),
    "operator": frozenset(Verb) - {"submit", "edit"},
    "auditor": frozenset({"watch"}),
    "impersonator": frozenset(),
}
CALLERS = (*ROLES, *(f"may-{verb}" for verb in Verb), "stranger", "west", "server")
MANIFEST = """{"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{
"name": "main", "image": "busybox",
"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]}}"""


@dataclass(frozen=True, slots=True)
class Place:
    """What a request is about."""

    queue: str
    job_id: str


def submit(place: Place) -> Any:
    """Return a submit of one job."""
    item = job_pb2.JobItem(queue=place.queue, job_set="one")
    return job_pb2.SubmitJobsRequest(specs=[job_pb2.JobSpec(manifests=[MANIFEST])], items=[item], validate_only=True)


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call with a token."""
    return (("authorization", f"Bearer {token}"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """A server with two tenants' queues and jobs."""

    channel: grpc.aio.Channel
    api: Any
    places: Mapping[str, Place]


@asynccontextmanager
async def running_mesh(serve: Any, database_url: str, directory: Path) -> AsyncIterator[Mesh]:
    """Serve a mesh in which every caller has a token, every role a holder, and each verb on red one."""
    people = [name for name in CALLERS if name not in {"west", "server"}]
    entries: list[dict[str, Any]] = [{"name": name, "sha256": hash_token(name)} for name in people]
    entries.append({"server": True, "sha256": hash_token("server")})
    entries += [{"cluster": "west", "sha256": hash_token("west")}, {"name": "root", "sha256": hash_token("root")}]
    (directory / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    access = AccessSettings(tokens_file=str(directory / "tokens.yaml"), admins=("user:root",))
    # Every role at one place: the leader's own services are there, and nobody leads, so its memory is UNAVAILABLE.
    async with serve(
        database_url, role="api", access=access, grpc=GrpcSettings(listen="127.0.0.1:0", calls_per_s=0.0)
    ) as api:
        root = {"metadata": bearer("root")}
        for name in (OWN, OTHERS):
            queue = queue_pb2.Queue(name=name, namespaces=["default"])
            await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), **root)
        grants = [access_pb2.Grant(subject=f"user:{role}", verb=role) for role in Role]
        grants += [access_pb2.Grant(subject=f"user:may-{verb}", queue=OWN, verb=verb) for verb in Verb]
        grants.append(access_pb2.Grant(subject="user:root", queue=OWN, verb="submit"))
        await api.access.AddGrants(access_pb2.AddGrantsRequest(grants=grants), **root)
        jobs = {}
        for name in (OWN, OTHERS):
            request = submit(Place(name, ""))
            request.validate_only = False
            jobs[name] = (await api.jobs.SubmitJobs(request, **root)).job_ids[0]
        other = jobs[OTHERS]
        jobs[ABSENT] = ("0" if other[0] != "0" else "1") + other[1:]
        yield Mesh(channel=api.channel, api=api, places={name: Place(name, jobs[name]) for name in jobs})

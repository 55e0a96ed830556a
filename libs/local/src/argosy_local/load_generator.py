"""The load generator of `argosy bench mesh`: an open loop in a process of its own.

Calls go out at their appointed times, whether earlier ones were answered or not, and a call's time to its answer counts
from its appointed time, so a server that stalls cannot slow down its own load. A call that finds too many others under
way waits for one of them, and is counted.

    python -m argosy_local.load_generator '{"server": "127.0.0.1:50051", "rate": 1000, ...}'

reads its order from the argument, begins when a line comes on the standard input, and prints its result as one line of
JSON.

Source: design section 8.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import grpc
import numpy as np

from argosy.api.v1 import job_pb2
from argosy.channel_credentials import ChannelCredentials, open_aio_channel
from argosy_workload.load import MeshLoad
from argosy_workload.manifests import Submission

__all__ = ["LoadOrder", "main", "request_bytes", "run_load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOrder:
    """What to send."""

    server: str
    """host:port of the API."""
    rate: float
    """Jobs per second."""
    seconds: float
    """How long."""
    skip_s: float
    """Times to the answer of calls before this are not counted."""
    connection_count: int
    """Connections to spread the calls over."""
    max_call_count: int
    """Most calls under way."""
    prefix: str
    """Of client ids; no other run may have it."""
    seed: int
    """Chooses queues, classes and unique specs."""
    load: dict[str, Any]
    """Fields of `MeshLoad`."""
    credentials: dict[str, str] = field(default_factory=dict)
    """Fields of `ChannelCredentials`."""


def request_bytes(submission: Submission) -> bytes:
    """Return a submission as the bytes of a SubmitJobsRequest.

    Complexity: about 3 us a job.
    """
    request = job_pb2.SubmitJobsRequest()
    for manifest in submission.specs:
        request.specs.add(manifests=(manifest.decode(),))
    add = request.items.add
    for spec, queue, job_set, client_id in zip(
        submission.spec, submission.queue, submission.job_set, submission.client_id, strict=True
    ):
        add(spec=spec, queue=queue, job_set=job_set, client_id=client_id)
    return request.SerializeToString()


class _Loop:
    """One run of a load."""

    def __init__(self, order: LoadOrder, channels: Sequence[grpc.aio.Channel]) -> None:
        self._order = order
        self._identity = ChannelCredentials(**order.credentials).metadata(order.server)
        name = f"/{job_pb2.DESCRIPTOR.services_by_name['JobService'].full_name}/SubmitJobs"
        self._calls: list[Any] = [
            channel.unary_unary(
                name,
                request_serializer=None,
                response_deserializer=job_pb2.SubmitJobsResponse.FromString,
            )
            for channel in channels
        ]
        self._under_way: set[asyncio.Task[None]] = set()
        self._waits_s: list[float] = []
        self._accepted = self._late_count = 0
        self._errors: Counter[str] = Counter()

    async def run(self) -> dict[str, Any]:
        """Send the load and return what came of it."""
        load = MeshLoad(**self._order.load)
        submissions = load.submissions(self._order.seed, prefix=self._order.prefix)
        period_s = load.batch_size / self._order.rate
        start_s = time.monotonic()
        number = 0
        async with asyncio.TaskGroup() as group:
            while number * period_s < self._order.seconds:
                request = request_bytes(next(submissions))  # made before its time has come
                due_s = start_s + number * period_s
                await asyncio.sleep(max(due_s - time.monotonic(), 0.0))
                while len(self._under_way) >= self._order.max_call_count:
                    self._late_count += 1
                    await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
                is_counted = number * period_s >= self._order.skip_s
                call = self._calls[number % len(self._calls)]
                task = group.create_task(self._call(call, request, due_s if is_counted else None))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
                number += 1
            elapsed_s = time.monotonic() - start_s
        return self._result(number * load.batch_size, elapsed_s)

    async def _call(self, call: Any, request: bytes, due_s: float | None) -> None:  # noqa: ANN401 - grpc has no type for it
        try:
            response = await call(request, timeout=30.0, metadata=self._identity)
        except grpc.RpcError as error:
            self._errors[error.code().name] += 1
            return
        if due_s is not None:
            self._waits_s.append(time.monotonic() - due_s)
        self._accepted += len(response.job_ids)

    def _result(self, offered: int, elapsed_s: float) -> dict[str, Any]:
        waits_ms = np.array(self._waits_s) * 1000
        levels = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "offered_count": offered,
            "accepted_count": self._accepted,
            "elapsed_s": elapsed_s,
            "acknowledged": {
                name: float(np.quantile(waits_ms, level)) if len(waits_ms) else None for name, level in levels.items()
            },
            "held_up_count": self._late_count,
            "errors": dict(self._errors),
            "cpu_s": used.ru_utime + used.ru_stime,
        }


async def run_load(order: LoadOrder) -> dict[str, Any]:
    """Send a load and return what came of it: counts, times to the answer in ms, errors by code, CPU seconds."""
    options: list[tuple[str, int | str]] = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", 64 << 20),
    ]
    credentials = ChannelCredentials(**order.credentials)
    channels = [open_aio_channel(order.server, credentials, options) for _ in range(max(order.connection_count, 1))]
    try:
        return await _Loop(order, channels).run()
    finally:
        for channel in channels:
            await channel.close()


def main() -> int:
    """Run the order in the first argument; see the module."""
    document = json.loads(sys.argv[1])
    order = LoadOrder(**{one.name: document[one.name] for one in fields(LoadOrder)})
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asyncio.run(run_load(order))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

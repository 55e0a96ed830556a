"""Make a queue, submit ten jobs, watch them until all have ended and tell how.

Exits with 0 if all succeeded, with 1 if some did not, and with 2 if the server could not be used.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import suppress

from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_core.errors import AlreadyExists, ArgosyError

JOB_COUNT = 10
MANIFEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"annotations": {"argosy.dev/simulated-run-time": "1s-2s"}},
    "spec": {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "command": ["sleep", "1"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }
        ],
    },
}


async def run(server: str, queue: str, job_set: str) -> bool:
    """Return whether all jobs succeeded; the client repeats calls and resumes the watch by itself."""
    async with ArgosyClient(server) as client:
        with suppress(AlreadyExists):  # one with other settings will do
            await client.create_queue(Queue(name=queue))
        print(f"queue {queue}")

        manifests = (json.dumps(MANIFEST),)
        job_ids = await client.submit(
            [
                JobDraft(queue=queue, job_set=job_set, manifests=manifests, client_id=f"{job_set}-{index}")
                for index in range(JOB_COUNT)
            ]
        )
        print(f"submitted {len(job_ids)} jobs to job set {job_set}")

        counts: dict[str, int] = {}
        async for batch in client.watch(queue, job_set, until_finished=True):
            for event in batch.events:
                print(f"{event.number:4} {event.job_id} {event.kind} {event.node}", flush=True)
            counts = dict(batch.state_counts)
        print(", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if count))
        return counts.get("succeeded") == JOB_COUNT


def main() -> int:
    """Run the program; return the exit code."""
    server = os.environ.get("ARGOSY_SERVER") or "127.0.0.1:50051"
    queue = os.environ.get("ARGOSY_QUEUE") or "quick-start"
    try:
        return 0 if asyncio.run(run(server, queue, f"python-{time.time_ns()}")) else 1
    except ArgosyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

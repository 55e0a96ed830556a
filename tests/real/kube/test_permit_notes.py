"""Notes of what pods may have, on a real API server."""

from __future__ import annotations

import asyncio

import msgspec
from testbed.lab import NAMESPACE, PODS, RealLab

from argosy_core.job.reading.scaling import PERMIT_ANNOTATION
from argosy_kube.opening import open_pod_notes


async def test_of_writers_that_expect_the_same_note_one_writes(lab: RealLab) -> None:
    """A first note, too; a test of the patch that fails is told from a call that does."""
    await lab.make_pod("noted", "node-a", {"requests": {"cpu": "100m", "memory": "32Mi"}})
    path, place = f"{PODS}/noted", (NAMESPACE, "noted")
    pod = msgspec.json.decode(await lab.admin.get(path))
    notes = open_pod_notes(f"kubernetes:{lab.api.kubeconfig}")
    try:
        uid = pod["metadata"]["uid"]
        for before in ("", "1.0"):
            texts = [f"{len(before)}.{number}" for number in range(4)]
            found = await asyncio.gather(*(notes.write(place, uid, before=before, after=text) for text in texts))
            if not before:
                assert len(set(found)) == 1
                assert await notes.write(place, uid, before=found[0], after="1.0") == "1.0"
        pod = msgspec.json.decode(await lab.admin.get(path))
        assert set(found) == {pod["metadata"]["annotations"][PERMIT_ANNOTATION]}
    finally:
        await notes.close()

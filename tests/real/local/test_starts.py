"""A mesh of which a process dies while it starts gets ready all the same; one that is configured wrongly says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh

PLAN = MeshPlan(clusters=(ClusterPlan(name="c1", kinds="2:cpu=4,memory=16Gi"),))


def test_leader_that_dies_while_the_mesh_starts_is_started_again(tmp_path: Path) -> None:
    """It costs a new start, which is said, and not the mesh."""
    mesh = Mesh(tmp_path / "mesh")
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if text.startswith("waiting for the clusters"):
            mesh.kill("leader")

    try:
        mesh.up(PLAN, timeout_s=200.0, tell=tell)  # of a machine with much else to do
        assert [text for text in told if "started again" in text] == [
            f"leader was ended by SIGKILL and was started again (1 of 3); its log is {mesh.log_path('leader')}"
        ]
        assert mesh.dead_roles() == []
    finally:
        mesh.down()


def test_flag_that_a_service_does_not_know_ends_the_start_at_once(tmp_path: Path) -> None:
    """With the service and its own words, and without new starts."""
    mesh = Mesh(tmp_path / "mesh")
    told: list[str] = []
    plan = MeshPlan(clusters=PLAN.clusters, flags={"sampler": ["--no-such-flag", "1"]})
    try:
        with pytest.raises(BackendUnavailable, match="no-such-flag") as raised:
            mesh.up(plan, tell=told.append)
        assert raised.value.message.startswith("sampler-c1 ended with exit code 2:")
        assert not [text for text in told if "started again" in text]
    finally:
        mesh.down()

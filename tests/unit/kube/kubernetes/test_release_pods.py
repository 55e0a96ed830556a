"""An installation that goes from a cluster lets go of its pods, and of nobody else's."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from argosy_cli.commands.admin import admin
from argosy_core.errors import BackendUnavailable
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_testkit.cluster_batches import make_create_batch
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


async def make_pods(lab: FakeKubeLab) -> None:
    """Make three pods of one installation and one of another."""
    await lab.open("one").create_objects(make_create_batch([(11, 1), (12, 1), (13, 1)], nodes=("nowhere",)))
    await lab.open("two").create_objects(make_create_batch([(14, 1)], nodes=("nowhere",)))


def kept_count(lab: FakeKubeLab) -> int:
    """Return how many pods carry the finalizer."""
    return sum(STORED_FINALIZER in (pod["metadata"].get("finalizers") or ()) for pod in lab.api.store.all("pods"))


async def run(lab: FakeKubeLab, *arguments: str) -> Result:
    """Run the command beside this event loop, which serves the API server."""
    command = ["release-cluster", "--cluster-address", f"kubernetes:{lab.kubeconfig}", *arguments]
    return await asyncio.to_thread(CliRunner().invoke, admin, command)


async def test_pods_of_the_installation_are_let_go_and_no_others(lab: FakeKubeLab) -> None:
    """Nothing is deleted; repeated, there is nothing left to do."""
    await make_pods(lab)
    assert kept_count(lab) == 4
    assert await lab.open("one").release_pods(dry_run=True) == 3
    assert kept_count(lab) == 4
    assert await lab.open("one").release_pods() == 3
    assert (kept_count(lab), len(list(lab.api.store.all("pods")))) == (1, 4)
    assert await lab.open("one").release_pods() == 0


async def test_refusal_is_told(lab: FakeKubeLab) -> None:
    """Whoever has not the right must not believe that it was done."""
    await make_pods(lab)
    lab.api.faults.add(ApiFault(method="PATCH", status=403, reason="Forbidden", message="you may not", count=9))
    with pytest.raises(BackendUnavailable, match="letting go of pods"):
        await lab.open("one").release_pods()


async def test_command_lets_go_only_when_it_is_confirmed(lab: FakeKubeLab) -> None:
    """It counts with --dry-run, asks for -y where nobody can answer, and knows no simulated cluster."""
    await make_pods(lab)
    counted = await run(lab, "--installation", "one", "--dry-run", "-o", "json")
    assert json.loads(counted.output) == {"installation": "one", "podCount": 3, "dryRun": True}
    unconfirmed = await run(lab, "--installation", "one")
    assert (unconfirmed.exit_code, kept_count(lab)) == (2, 4)
    done = await run(lab, "--installation", "one", "-y")
    assert "3 pods of one were let go" in done.output
    assert kept_count(lab) == 1
    simulated = CliRunner().invoke(admin, ["release-cluster", "--cluster-address", "simulated:127.0.0.1:1", "-y"])
    assert simulated.exit_code == 2

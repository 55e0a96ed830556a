"""Notes on pods of what they may have, on a fake API server."""

from collections.abc import AsyncIterator

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_core.job.reading.scaling import PERMIT_ANNOTATION
from argosy_kube.kubernetes.api.credentials import CredentialSource
from argosy_kube.kubernetes.scaling.notes import KubernetesNotes
from argosy_testkit.fake_kube_api.faults import ApiFault
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab

POD = "default", "p"


@pytest.fixture
async def notes(lab: FakeKubeLab) -> AsyncIterator[KubernetesNotes]:
    """What writes on the pods of the lab."""
    notes = KubernetesNotes(CredentialSource(path=str(lab.kubeconfig)), settings=QUICK)
    yield notes
    await notes.close()


async def test_a_note_is_written_only_over_the_one_that_it_replaces(lab: FakeKubeLab, notes: KubernetesNotes) -> None:
    """Whoever comes late learns which note the pod has."""
    uid = lab.make_pod("p", "node-a", {})["metadata"]["uid"]
    assert await notes.write(POD, uid, before="", after="one") == "one"
    assert await notes.write(POD, uid, before="", after="late") == "one"
    assert await notes.write(POD, uid, before="one", after="two") == "two"
    assert lab.api.store.find("pods", "default", "p")["metadata"]["annotations"][PERMIT_ANNOTATION] == "two"


async def test_a_note_that_was_written_though_its_answer_was_lost_is_found(
    lab: FakeKubeLab, notes: KubernetesNotes
) -> None:
    """The second try finds its own note; a pod of the same name that is another gets none."""
    uid = lab.make_pod("p", "node-a", {})["metadata"]["uid"]
    lab.api.faults.add(ApiFault(kind="truncate", method="PATCH"))
    assert await notes.write(POD, uid, before="", after="one") == "one"
    with pytest.raises(BackendUnavailable, match="another one has its name"):
        await notes.write(POD, "01900000-0000-7000-8000-000000000000", before="one", after="two")
    with pytest.raises(BackendUnavailable, match="noting a permit"):
        await notes.write(("default", "gone"), uid, before="one", after="two")

"""A fake API server that fails as scripted, for what a real one does only on bad days.

It keeps what is posted, lists and watches it by label and node, honours finalizers, grace and preconditions, and plays
a kubelet; `argosy_kube.kubernetes` cannot tell it from a real one in what it asks. What it does not check, a real one
may refuse: tests of what is accepted belong to the real one.
"""

from argosy_testkit.fake_kube_api.faults import ApiFault
from argosy_testkit.fake_kube_api.server import FakeKubeApi

__all__ = ["ApiFault", "FakeKubeApi"]

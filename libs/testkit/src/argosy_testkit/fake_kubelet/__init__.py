"""A kubelet that runs nothing: it plays the nodes of a real API server and the lives of the pods bound to them.

Pods go Pending, Running, Succeeded or Failed as annotations say (`argosy_kube.port`, and REASON_ANNOTATION and others
here); deletions are carried out; what does not fit on a node is refused as a kubelet would; nodes send heartbeats, can
be cut off, not ready or removed; `kubectl logs` gets lines. FakeKubelet lives in an event loop, KubeletProcess is the
same in a process of its own.
"""

from argosy_testkit.fake_kubelet.behaviour import LOG_LINES_ANNOTATION, REASON_ANNOTATION, STOP_TIME_ANNOTATION
from argosy_testkit.fake_kubelet.kubelet import FakeKubelet
from argosy_testkit.fake_kubelet.process import KubeletProcess

__all__ = [
    "LOG_LINES_ANNOTATION",
    "REASON_ANNOTATION",
    "STOP_TIME_ANNOTATION",
    "FakeKubelet",
    "KubeletProcess",
]

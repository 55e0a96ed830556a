"""A simulated cluster: nodes and pods in the memory of a process of their own, behind the cluster port.

::

    argosy_kube.simulated.client   SimulatedCluster: the port over a socket
            | frames (wire)
    argosy_kube.simulated.server   one connection per call or watch
            |
    argosy_kube.simulated.host     clock, flushes, waiting watchers
            |
    argosy_kube.simulated.engine   pure: create, delete, advance to a time, flush

Nothing is kept on disk: a process that is killed has lost its pods, as nodes that lose their power have.
"""

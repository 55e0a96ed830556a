"""The sampler: writer of one cluster's node ledger; answers sampling and committing for the pool's leader.

::

    cluster (nodes, pods) --watch--> informer --> ledger <-- handler <-- session <--stream--> leader

Owns: the ledger of its cluster's nodes, in memory.
May import: argosy_runtime, argosy_kube and the core; never another service.
Start: `app.start`; then `session` and `handler`.

Source: design sections 1, 2 and 5 ("Sampler session", "Sampler lost").
"""

"""The sampler: writer of one cluster's node ledger; answers sampling and committing for the pool's leader.

::

    cluster (nodes, pods) --watch--> mirror --> ledger <-- clerk <-- session <--stream--> leader

Source: design sections 1, 2 and 5 ("Sampler session", "Sampler lost").
"""

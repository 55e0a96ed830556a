"""Pure scheduling, queueing, ledger and reconciliation logic of Argosy: everything that decides.

Owns: the rules, as functions of values; time and chance are handed in.
May import: NumPy and the standard library without clocks, randomness, logging, files and network.
Start: `job` and `nodes` (the values), `scheduler` (one round, from waiting jobs to leases), `reconcile` (the executor).
"""

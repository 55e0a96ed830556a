"""The leader role: one per pool, by election with epochs. `role` composes it; start there, or with `cycle.term`.

What a leader decides is `argosy_core.leader`'s affair; this package is its shell. `takeover` takes the epoch and reads
what is stored; `cycle` drives the machine and writes what it decides; `log` is the event log; `sessions` holds the
streams of clusters; `show` is what people and metrics see. They import `argosy_core`, `argosy_store`,
`argosy_eventlog` and `argosy_runtime`; of the API only the types of `api.leader_view`.
"""

"""The executor of Argosy, one per cluster: leases in, objects and reports out.

Owns: the objects of our jobs in its cluster.
May import: argosy_runtime, argosy_kube and the core; never another service.
Start: `app.start`; then `session` (what the leader says) and `reconciling` (what is done about it).
"""

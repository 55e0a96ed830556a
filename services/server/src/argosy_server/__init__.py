"""The central service of Argosy: API, pool leader and relay of job events, as roles of one program.

Owns: what was accepted and what was decided; every row in the database is written here.
May import: argosy_runtime, argosy_store, argosy_eventlog and the core; never another service.
Start: `app` (composition), then `api` and `leader`.
"""

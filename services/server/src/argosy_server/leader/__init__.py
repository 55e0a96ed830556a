"""The leader role: one per pool, by election with epochs.

`role` composes it; `election` takes and keeps the epoch; `cycle` runs rounds; `sampler_sessions` and `sync_sessions`
hold the clusters' streams; `ingest` turns what the core decided into rows; `codec` packs messages; `view` answers
questions about the leader's memory.
"""

"""The streams that clusters dial: `streams` is their common shape, `samplers` and `executors` are the two kinds.

`outbox` bounds what waits for a peer, `binding` makes a cluster's name its own, `rows` sends executors their rows,
`log_relays` passes pods' logs on, and `cluster_codec` packs messages. Start with `streams`.
"""

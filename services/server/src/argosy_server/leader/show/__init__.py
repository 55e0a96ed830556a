"""What is seen of a leader: `view` for the API, `gauges` for metrics, `round_traces` for traces.

`notes` keeps what only people want to know: nodes, how long phases took, latencies (`latency`). Start with `view`.
"""

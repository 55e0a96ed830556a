"""The cluster agent: sampler and executor of one cluster as one process, with one watch of the cluster.

On demand the agent that resizes its pods is in it, too.

Owns: the configuration that both parts share, and what they share of the cluster.
May import: argosy_sampler, argosy_executor and argosy_agent, which never import each other, and what they may import.
Start: `app.start`; `python -m argosy_cluster_agent` runs it.
"""

"""The agent: resizes the running pods of one cluster, within permits from its sampler.

::

    cluster (pods, metrics) --> loop (argosy_core.autoscale) --> resizes
                                 ^
                                 +-- session <--stream--> sampler

Owns: nothing but the sizes of pods; what is next is said by the core.
May import: argosy_runtime, argosy_kube and the core; never another service.
Start: `app.start`; then `loop` and `session`.

Source: design section 5, "Resize"; docs/autoscale.md.
"""

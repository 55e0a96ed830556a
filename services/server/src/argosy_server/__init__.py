"""The central scheduling service of Argosy: API, queueing, planning and commit."""

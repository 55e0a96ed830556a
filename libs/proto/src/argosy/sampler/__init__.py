"""Generated wire types of the package `argosy.sampler`; see `make proto`."""

"""Generated wire types of the package `argosy.sampler.v1`; see `make proto`."""

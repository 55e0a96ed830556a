"""Generated wire types of the package `argosy.executor.v1`; see `make proto`."""

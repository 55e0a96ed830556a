"""Generated wire types of the package `argosy.executor`; see `make proto`."""

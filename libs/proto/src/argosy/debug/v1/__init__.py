"""Generated wire types of the package `argosy.debug.v1`; see `make proto`."""

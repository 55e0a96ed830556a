"""Generated wire types of the package `argosy.api.v1`; see `make proto`."""

"""Generated wire types of the package `argosy`; see `make proto`."""

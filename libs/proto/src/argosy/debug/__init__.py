"""Generated wire types of the package `argosy.debug`; see `make proto`."""

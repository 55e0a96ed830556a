"""Generated wire types of the package `argosy.lease`; see `make proto`."""

"""Generated wire types of the package `argosy.api`; see `make proto`."""

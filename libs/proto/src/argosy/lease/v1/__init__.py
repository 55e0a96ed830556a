"""Generated wire types of the package `argosy.lease.v1`; see `make proto`."""

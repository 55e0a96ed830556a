"""Generated wire types of the package `argosy.autoscale.v1`; see `make proto`."""

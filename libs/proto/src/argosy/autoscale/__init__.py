"""Generated wire types of the package `argosy.autoscale`; see `make proto`."""

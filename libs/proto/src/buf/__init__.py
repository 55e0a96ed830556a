"""Generated wire types of the package `buf`; see `make proto`."""

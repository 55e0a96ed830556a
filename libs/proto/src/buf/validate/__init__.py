"""Generated wire types of the package `buf.validate`; see `make proto`."""

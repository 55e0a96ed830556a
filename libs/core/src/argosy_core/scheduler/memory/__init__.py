"""What a pool's leader remembers: the state, its tables, and what is derived from it alone."""

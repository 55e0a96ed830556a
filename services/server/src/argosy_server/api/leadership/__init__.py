"""The pool's leader, as the API asks it: where it is, and what it shows."""

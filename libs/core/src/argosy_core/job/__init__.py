"""Jobs: what they are called, what they ask for, how their names are made, and the states they go through."""

"""What is ours: which kinds, where our objects are, whose an object is, and what changes of them."""

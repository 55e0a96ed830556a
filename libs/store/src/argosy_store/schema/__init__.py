"""The tables: what they are, who may touch them, how they move, and what leaves by retention."""

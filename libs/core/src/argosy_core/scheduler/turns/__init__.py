"""Whose turn it is: shares, limits, order within a queue, and whom a round may ask for what."""

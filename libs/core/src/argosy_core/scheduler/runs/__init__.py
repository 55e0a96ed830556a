"""What becomes of runs: progress, ends, another attempt or none, and what is stopped for others."""

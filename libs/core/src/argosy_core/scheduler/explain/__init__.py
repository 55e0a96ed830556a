"""What people are shown: why a job waits, when it may start, and what would become of a submit."""

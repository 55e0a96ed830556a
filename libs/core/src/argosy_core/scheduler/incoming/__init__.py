"""What comes in: definitions, jobs, change requests, capacity, and what the log confirmed."""

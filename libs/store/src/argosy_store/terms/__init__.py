"""What a leader's term reads and writes: election, loading, effects, the outbox, and what ended terms."""

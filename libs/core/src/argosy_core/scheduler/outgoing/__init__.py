"""What the scheduler's functions answer: effects, numbered events, and what the store refused of them."""

"""What enters and leaves the scheduler, as columns: messages, rows for the store, and the codes in them."""

"""Acting: objects made, looked for by name, deleted and evicted, and logs read."""

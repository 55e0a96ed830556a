"""Acting: objects made, looked for by name, deleted, and logs read."""

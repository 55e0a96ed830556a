"""One module per group of commands; each is imported when its command is called."""

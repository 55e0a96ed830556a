"""Reading documents to rows: what a pod or node says, as the port's columns."""

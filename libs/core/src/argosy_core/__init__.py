"""Pure scheduling, queueing, ledger and reconciliation logic of Argosy."""

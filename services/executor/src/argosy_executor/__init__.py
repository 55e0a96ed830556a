"""The executor of Argosy, one per cluster: leases in, pods and reports out."""

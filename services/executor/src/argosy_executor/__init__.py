"""The per-cluster agent of Argosy: leases in, pods and reports out."""

"""The cluster port on a Kubernetes API server."""

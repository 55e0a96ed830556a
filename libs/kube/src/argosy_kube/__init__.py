"""Cluster port of Argosy and its simulated cluster."""

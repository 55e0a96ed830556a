"""Workload traces, generators and simulation reports for Argosy."""

"""Configuration, gRPC bootstrap, health, shutdown, logs and metrics of Argosy services."""

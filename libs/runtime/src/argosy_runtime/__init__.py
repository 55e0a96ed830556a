"""What every service process needs before it does its own work.

Owns: configuration, the gRPC server and channels, errors as codes, health, life cycle, logs, metrics and traces;
where the ends of containers' logs are kept (`log_archives`).
May import: argosy_core; never an adapter or a service.
Start: `main.run_main` (a process from its flags to its end), then `config` and `lifecycle`.
"""

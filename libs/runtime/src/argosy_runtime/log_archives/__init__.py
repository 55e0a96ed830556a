"""Ends of containers' logs that outlive their pods: kept by executors, read by them and by servers.

Owns: the port, its settings, and its implementations: a directory, an HTTP server, S3 and Loki.
May import: the core's errors; aiohttp where a server keeps the logs (the extra `log-archive`).
Start: `opening.open_archive`.
"""

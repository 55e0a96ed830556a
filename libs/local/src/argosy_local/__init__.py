"""Meshes on this machine: started as processes, replayed through, measured; and simulated in virtual time.

Owns: which processes a mesh has, their files and their lives; replays, benchmarks and simulations with their results.
May import: everything but the command. Beside tests, nothing else knows all services: here they are started.
Start: `mesh.Mesh`; then `compose` (its command lines), `replay`, `bench`, `simulation`.
"""

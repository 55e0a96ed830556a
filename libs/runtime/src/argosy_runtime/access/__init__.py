"""How it is known who calls: static tokens, certificates, and the guard that asks every call for them.

What callers may do is decided by `argosy_core.access`; which method needs what, and what is granted, the server brings.
Start with `guard`.
"""

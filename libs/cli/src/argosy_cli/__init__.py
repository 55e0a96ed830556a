"""The argosy command: what users and operators type.

Owns: the commands, their options, forms of output and exit codes.
May import: argosy_client and the core's errors; what an extra brings (argosy_local, argosy_store) only while a command
    that needs it runs, so that the command is light.
Start: `catalogue` (what there is), `root` (how a command is run), then `commands`.
"""

"""The leader's side of the event log: which one (`choice`), records (`codec`), appends and trims.

Start with `publishing`.
"""

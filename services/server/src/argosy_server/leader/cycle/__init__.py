"""One leader term: `driver` runs the machine on the event loop, `term` carries out its instructions.

`changes` reads what the machine is told of people; `effects` and `writer` store what it decided. Start with `term`.
"""

"""Generated wire types of Argosy; see `make proto`.

Owns: the messages and stubs of `proto/`, and their descriptors.
May import: protobuf and gRPC alone.
Start: `proto/argosy/api/v1/` (what users call), `proto/argosy/lease/v1/` (what a decision looks like on the log).
"""

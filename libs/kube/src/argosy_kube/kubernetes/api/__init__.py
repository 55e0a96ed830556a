"""The API client: credentials, calls, lists, watches and which kinds there are; knows nothing of Argosy's objects."""

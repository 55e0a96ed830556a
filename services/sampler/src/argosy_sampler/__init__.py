"""The node sampling service of Argosy."""

"""Worked examples of Argosy's plugins; `docs/plugins.md` explains them."""

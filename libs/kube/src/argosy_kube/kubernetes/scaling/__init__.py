"""Pods that are resized while they run: their sizes, their resizes, and what they use."""

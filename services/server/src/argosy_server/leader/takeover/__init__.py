"""Becoming the leader: `election` takes and keeps the epoch, `loading` turns stored rows into the machine's columns."""

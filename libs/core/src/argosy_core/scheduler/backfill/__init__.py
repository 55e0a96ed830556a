"""Promised starts in a round: who has one, who may pass it, and what grows towards its share."""

"""A round from waiting jobs to a plan: asking, answers, commits."""

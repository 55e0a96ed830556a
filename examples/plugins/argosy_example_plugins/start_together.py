"""A permit: jobs of a group start together, once as many of them as it needs have a place."""

from collections import Counter

from argosy_core.framework import PermitBatch


class StartTogether:
    """Permit `start-together`: two labels of a job name its group, and how many must start at once."""

    def __init__(self, label: str = "example.com/group", timeout_s: str = "60") -> None:
        """Take the label, and how long places are kept for a group that is not complete, from the settings."""
        self._label, self._timeout_s = label, float(timeout_s)
        self._started: dict[tuple[str, str], None] = {}

    def permit(self, batch: PermitBatch) -> None:
        """Hold back members of groups of which too few are placed; all that wait are in the batch with what is new."""
        labels = [batch.labels(line) for line in range(len(batch))]
        groups = [(queue, one.get(self._label, "")) for queue, one in zip(batch.queue, labels, strict=True)]
        placed = Counter(groups)
        for line, (group, one) in enumerate(zip(groups, labels, strict=True)):
            size = one.get(f"{self._label}-size", "")
            if placed[group] >= int(size if size.isdigit() else 1):
                self._started[group] = None  # a member that is run again need not wait for the others
            elif group not in self._started:
                batch.wait(line, f"{placed[group]} of {size} of its group are placed", timeout_s=self._timeout_s)
        while len(self._started) > 10_000:
            del self._started[next(iter(self._started))]

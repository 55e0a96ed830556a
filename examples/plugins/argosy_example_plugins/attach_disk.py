"""A pre-bind: network disks are attached to the node that was chosen, before anything is made there."""

from pathlib import Path

from argosy_core.framework import PermitBatch


class AttachDisk:
    """Pre-bind and reject of `attach-disk`: a label of a job names a disk, which a few runs may have at once.

    A directory stands for the storage: a folder for each disk, with a file for each run that has it. `pre_bind` is
    called on a thread of its own, so it may wait for a real one's API; there, too, to attach what is attached must do
    no harm. What ends keeps its disk until the storage detaches it: the leader calls no plugin for that.
    """

    def __init__(self, directory: str, label: str = "example.com/disk", most: str = "1") -> None:
        """Take the storage's directory, the label, and how many runs a disk may have at once, from the settings."""
        self._directory, self._label, self._most = Path(directory), label, int(most)

    def pre_bind(self, batch: PermitBatch) -> None:
        """Attach the disks of runs that want one; those that do not get it wait in their queues again."""
        for line in range(len(batch)):
            if not self._attach(batch, line):
                batch.deny(line, f"disk {batch.labels(line)[self._label]} is attached elsewhere", retry_after_s=1)

    def _attach(self, batch: PermitBatch, line: int) -> bool:
        """Attach the disk of one run; return whether it has it."""
        file = self._file(batch, line)
        if file is None or file.exists():
            return True
        file.parent.mkdir(parents=True, exist_ok=True)
        if len(list(file.parent.iterdir())) >= self._most:
            return False
        file.write_text(f"{batch.cluster[line]}/{batch.node[line]}\n")
        return True

    def reject(self, batch: PermitBatch) -> None:
        """Detach the disks of runs that came to nothing."""
        for line in range(len(batch)):
            file = self._file(batch, line)
            if file is not None:
                file.unlink(missing_ok=True)

    def _file(self, batch: PermitBatch, line: int) -> Path | None:
        """Return what stands for a run's attachment; None for a job that wants no disk."""
        disk = batch.labels(line).get(self._label, "")
        return self._directory / disk / f"{batch.handle[line]}-{batch.attempt[line]}" if disk else None

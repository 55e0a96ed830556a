"""Several reports of one executor as one.

Source: design section 5, "Sync": states go up in batches.
"""

from __future__ import annotations

import numpy as np

from argosy_core.scheduler import StateColumns

__all__ = ["join_states"]


def join_states(parts: list[StateColumns]) -> StateColumns:
    """Return one or more reports as one, in order."""
    if len(parts) == 1:
        return parts[0]
    texts: list[str] = []
    messages = []
    for part in parts:
        messages.append(np.where(part.message >= 0, part.message + len(texts), -1).astype(np.int32))
        texts.extend(part.texts)
    return StateColumns(
        handle=np.concatenate([part.handle for part in parts]),
        attempt=np.concatenate([part.attempt for part in parts]),
        object_index=np.concatenate([part.object_index for part in parts]),
        state=np.concatenate([part.state for part in parts]),
        time_us=np.concatenate([part.time_us for part in parts]),
        exit_code=np.concatenate([part.exit_code for part in parts]),
        failure=np.concatenate([part.failure for part in parts]),
        message=np.concatenate(messages),
        uid=b"".join(part.uid for part in parts),
        texts=tuple(texts),
    )

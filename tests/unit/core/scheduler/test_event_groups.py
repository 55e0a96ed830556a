"""Events of job sets, each with the texts that it uses."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.scheduler.outgoing.events import EventDraft


@pytest.mark.parametrize("size", [1, 24, 25, 60])
def test_group_of_any_size_says_the_same_with_the_texts_that_it_uses(size: int) -> None:
    """A few events are worked off in another way than many."""
    rng = np.random.default_rng(size)
    texts = tuple(f"text {number}" for number in range(80))
    columns = [rng.integers(-1, 80, 2 * size).astype(np.int32) for _ in range(3)]
    numbers = np.arange(2 * size)
    draft = EventDraft(
        job_set_id=np.array([4, 9]),
        first_number=np.array([1, 5]),
        offset=np.array([0, size, 2 * size]),
        create_time_us=7,
        handle=numbers,
        id_high=numbers,
        kind=np.ones(2 * size, np.int8),
        attempt=np.ones(2 * size, np.int32),
        time_us=numbers,
        cluster=columns[0],
        node=columns[1],
        reason=columns[2],
        from_state=np.ones(2 * size, np.int8),
        to_state=np.ones(2 * size, np.int8),
        texts=texts,
    )
    for at, group in enumerate(draft.groups()):
        used = set()
        for column, local in zip(columns, (group.cluster, group.node, group.reason), strict=True):
            meant = column[at * size : (at + 1) * size].tolist()
            used.update(meant)
            assert [group.texts[place] if place >= 0 else "" for place in local.tolist()] == [
                texts[place] if place >= 0 else "" for place in meant
            ]
            assert local.dtype == np.int32
        assert group.texts == tuple(texts[place] for place in sorted(used - {-1}))

"""Prints, as JSON, what the index of members costs beside a dict of packed integers, which it replaced.

Usage: python tests/benchmarks/member_keys.py [MEMBERS]

Nanoseconds a key by size of the batch, bytes a key, and the ratio of the index to the dict. The dict is asked as it
was: packed in NumPy, looked up through `map`.
"""

import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import repeat

import numpy as np

from argosy_core.job.tables.key_index import KeyIndex
from argosy_core.job.tables.members import Members

_FIRST_HANDLE = (19_000 << 40) + 1
_BATCHES = (1, 10, 100, 1000)


def _nanoseconds(act: Callable[[], object], keys: int) -> float:
    """Return the best of five times, nanoseconds a key."""
    rounds = max(1, 20_000 // keys)
    times = []
    for _ in range(5):
        begin = time.process_time()
        for _ in range(rounds):
            act()
        times.append(time.process_time() - begin)
    return round(1e9 * min(times) / rounds / keys, 1)


def _build_dict(handles: np.ndarray) -> dict[int, int]:
    """Return the dict of all first runs."""
    return dict(zip((handles << 8 | 1).tolist(), range(len(handles)), strict=True))


def _build_index(handles: np.ndarray) -> KeyIndex:
    """Return the index of all first runs, filled in batches as it is in use."""
    index = KeyIndex(2)
    for start in range(0, len(handles), 1000):
        part = Members.of(handles[start : start + 1000], np.ones(len(handles[start : start + 1000]), np.int32))
        index.insert(*part.columns, slots=np.arange(start, start + len(part), dtype=np.int32))
    return index


def _bytes_per_key(build: Callable[[np.ndarray], object], handles: np.ndarray) -> float:
    """Return the memory that what is built holds, bytes a key."""
    tracemalloc.start()
    built = build(handles)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del built
    return round(held / len(handles), 1)


def main() -> None:
    """Measure look-ups by batch size, and memory."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    handles = _FIRST_HANDLE + np.arange(count)
    slots, index, chance = _build_dict(handles), _build_index(handles), np.random.default_rng(1)
    result: dict[str, object] = {"members": count}
    for size in _BATCHES:
        wanted, attempts = chance.choice(handles, size), np.ones(size, np.int32)

        def ask_dict(wanted: np.ndarray = wanted, attempts: np.ndarray = attempts, size: int = size) -> np.ndarray:
            keys = ((wanted << 8) | attempts.astype(np.int64)).tolist()
            return np.fromiter(map(slots.get, keys, repeat(-1)), np.int32, size)

        def ask_index(wanted: np.ndarray = wanted, attempts: np.ndarray = attempts) -> np.ndarray:
            return index.lookup(*Members.of(wanted, attempts).columns)

        if not np.array_equal(ask_dict(), ask_index()):
            raise AssertionError("the index and the dict differ")
        before, after = _nanoseconds(ask_dict, size), _nanoseconds(ask_index, size)
        result[f"lookup_of_{size}_ns"] = {"dict": before, "index": after, "ratio": round(after / before, 2)}
    before, after = _bytes_per_key(_build_dict, handles), _bytes_per_key(_build_index, handles)
    result["bytes"] = {"dict": before, "index": after, "ratio": round(after / before, 2)}
    print(json.dumps(result, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()

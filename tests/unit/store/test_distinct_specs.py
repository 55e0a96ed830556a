"""Specs of a load by day and hash.

Source: design section 4, "identical jobs share it; never copied".
"""

import numpy as np

from argosy_store.terms import open_jobs

_WRAP = 2**64


def _hashes(pairs: list[tuple[int, int]]) -> np.ndarray:
    """Return hashes of two halves each."""
    return np.array(pairs, np.uint64).reshape(-1).view("V16")


def test_specs_are_told_apart_by_day_and_both_halves_of_their_hashes() -> None:
    """Each distinct (day, hash) stands once; every element names its own."""
    days = np.array([7, 7, 8, 7, 7], np.int64)
    hashes = _hashes([(1, 2), (3, 4), (1, 2), (1, 2), (1, 9)])
    first, index = open_jobs._distinct_specs(days, hashes)
    assert len(first) == 4
    assert (days[first][index] == days).all()
    assert (hashes[first][index] == hashes).all()


def test_specs_are_told_apart_although_two_have_one_number() -> None:
    """Two hashes that mix to one number of 64 bits are two specs."""
    spread = int(open_jobs._SPREAD)
    other = 5 ^ (2 * spread) % _WRAP ^ (9 * spread) % _WRAP
    days, hashes = np.array([3, 3, 3], np.int64), _hashes([(5, 2), (other, 9), (5, 2)])
    first, index = open_jobs._distinct_specs(days, hashes)
    assert len(first) == 2
    assert (hashes[first][index] == hashes).all()

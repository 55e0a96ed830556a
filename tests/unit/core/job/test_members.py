"""Members of runs: keys that do not wrap, sets of them, and the index over two columns."""

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.key_index import KeyIndex
from argosy_core.job.tables.members import MAX_ATTEMPT, MAX_MEMBER, Members, MemberSet, member_key, waves

HANDLE = (19_000 << 40) + 7


def test_key_gives_back_its_parts_at_the_limits() -> None:
    """Handle, attempt and member come out as they went in."""
    attempts, numbers = [1, 255, 256, 65_537, MAX_ATTEMPT], np.array([0, 1, 256, MAX_MEMBER, MAX_MEMBER])
    members = Members.of([HANDLE] * 5, attempts, numbers)
    assert members.handle.tolist() == [HANDLE] * 5
    assert (members.attempt.tolist(), members.member.tolist()) == (attempts, numbers.tolist())
    assert members.pairs() == [member_key(HANDLE, *parts) for parts in zip(attempts, numbers.tolist(), strict=True)]
    assert len(set(members.pairs())) == 5


@pytest.mark.parametrize(("attempt", "member"), [(-1, 0), (MAX_ATTEMPT + 1, 0), (1, -1), (1, MAX_MEMBER + 1)], ids=str)
def test_part_that_does_not_fit_is_refused(attempt: int, member: int) -> None:
    """Nothing wraps around to another run's key."""
    with pytest.raises(InvalidRequest, match="of a run is not between"):
        Members.of([7, HANDLE], [1, attempt], np.array([0, member]))


def test_distinct_members_are_sorted_and_repeated_ones_wait_their_turn() -> None:
    """Repeated members come in later groups, in order."""
    members = Members.of([9, 7, 9, 7, 9], [1, 2, 1, 1, 1])
    assert members.distinct().pairs() == [member_key(7, 1), member_key(7, 2), member_key(9, 1)]
    assert (members.are_distinct(), members[:2].are_distinct(), members[:0].are_distinct()) == (False, True, True)
    assert [wave.tolist() for wave in members.waves()] == [[0, 1, 3], [2], [4]]
    assert [wave.tolist() for wave in waves(np.array([5, 3, 5]))] == [[0, 1], [2]]


def test_member_is_told_from_others_of_its_job() -> None:
    """Attempts and members of one job are keys of their own."""
    some = Members.of([7, 7, 8], [1, 2, 1], np.array([0, 0, 1]))
    others = Members.of([7, 8, 8], [2, 1, 1], np.array([0, 1, 0]))
    assert (some.is_in(others).tolist(), others.is_in(some).tolist()) == ([False, True, True], [True, True, False])
    assert some.equal(others).tolist() == [False] * 3


def test_set_takes_repeated_and_unknown_members() -> None:
    """Adding what is there and discarding what is not changes nothing."""
    found, many = MemberSet(), Members.of(np.arange(600) // 2, np.ones(600), np.arange(600) % 2)
    found.add(Members.concatenate([many, many[:10]]))
    found.add(many[5:9])
    assert (len(found), found.has(many).all()) == (600, True)
    found.discard(Members.concatenate([many[:3], many[1:2], Members.of([10_000], [1])]))
    assert (len(found), np.flatnonzero(~found.has(many)).tolist()) == (597, [0, 1, 2])
    found.keep(many[:5])
    assert (len(found), np.flatnonzero(found.has(many)).tolist()) == (2, [3, 4])


def test_index_of_members_equals_a_dict() -> None:
    """Members of the same handle, attempt or number collide and are still told apart, also after removals."""
    chance, index, model = np.random.default_rng(5), KeyIndex(2), {}
    everything = Members.of(
        np.repeat(HANDLE + np.arange(40) * 1024, 60),
        np.tile(np.arange(60) // 6 + 1, 40),
        np.tile(np.arange(60) % 6, 40),
    )
    for step in range(12):
        chosen = everything[chance.random(len(everything)) < 0.4]
        held = np.array([key in model for key in chosen.pairs()])
        if step % 3 == 2:
            index.remove(*chosen.columns)
            for key in chosen[held].pairs():
                del model[key]
        else:
            fresh = chosen[~held]
            slots = np.arange(len(fresh), dtype=np.int32) + len(model)
            index.insert(*fresh.columns, slots=slots)
            model.update(zip(fresh.pairs(), slots.tolist(), strict=True))
        assert index.lookup(*everything.columns).tolist() == [model.get(key, -1) for key in everything.pairs()]
        assert len(index) == len(model)


def test_index_of_members_costs_less_than_fifty_bytes_each() -> None:
    """A dict of packed integers, which it replaces, costs about 140."""
    index, count = KeyIndex(2), 1 << 17
    members = Members.of(HANDLE + np.arange(count), np.ones(count))
    for start in range(0, count, 1000):
        part = members[start : start + 1000]
        index.insert(*part.columns, slots=np.arange(len(part), dtype=np.int32))
    assert index.nbytes / count < 50


class CountingIndex(KeyIndex):
    """Counts the passes over a batch."""

    passes = 0

    def _equal(self, positions: np.ndarray, columns: tuple[np.ndarray, ...]) -> np.ndarray:
        """Compare one place of each key."""
        self.passes += 1
        return super()._equal(positions, columns)


def test_keys_that_were_removed_in_order_are_missed_in_few_passes() -> None:
    """Jobs come and go in the order of their handles; what they leave behind makes no look-up long."""
    index, count = CountingIndex(2), 2000
    for batch in range(10):
        gone = Members.of(HANDLE + batch * count + np.arange(count), np.ones(count))
        index.insert(*gone.columns, slots=np.zeros(count, dtype=np.int32))
        index.remove(*gone.columns)
        index.passes = 0
        assert (index.lookup(*gone.columns) == -1).all()
        assert index.passes < 60


def test_keys_that_were_removed_are_missed_at_the_first_look() -> None:
    """Who is asked for last is a pod that is gone; where no other key was led past its place, that is empty again."""
    index, members = CountingIndex(2), Members.of(HANDLE + np.arange(100), np.ones(100))
    for part in (members[:10], members[10:]):  # a few go another way than many
        index.insert(*part.columns, slots=np.zeros(len(part), dtype=np.int32))
    for part in (members[40:50], members[50:]):
        index.remove(*part.columns)
    index.passes = 0
    assert (index.lookup(*members.columns) >= 0).tolist() == [place < 40 for place in range(100)]
    assert index.passes == 1


def test_keys_that_come_and_go_again_and_again_are_missed_in_few_passes() -> None:
    """A key takes a place that a removed one left: what is looked for does not wander further each time."""
    index, everything = CountingIndex(2), Members.of(HANDLE + np.arange(5000), np.ones(5000))
    members, others = everything[:20], everything[20:]
    index.insert(*others.columns, slots=np.zeros(len(others), dtype=np.int32))
    for _ in range(50):
        index.insert(*members.columns, slots=np.zeros(20, dtype=np.int32))
        index.remove(*members.columns)
    index.passes = 0
    assert (index.lookup(*members.columns) == -1).all()
    assert index.passes < 10


@pytest.mark.parametrize("width", [1, 2])
def test_keys_one_by_one_and_in_bulk_are_found_alike(width: int) -> None:
    """Small batches go another way than large ones, over the same places, whoever put the keys in."""
    chance, index, model = np.random.default_rng(7), KeyIndex(width), {}
    handles = np.repeat(HANDLE + np.arange(100) * 1024, 4) if width == 2 else HANDLE + np.arange(400) * 1024
    handles[::7] *= -1
    columns = (handles, np.tile(np.arange(4) << 40, 100))[:width]
    for size in [1, 200, 3, 16, 17, 90, 5] * 20:
        rows = chance.choice(len(handles), size, replace=False)
        held = np.array([row in model for row in rows.tolist()])
        if chance.random() < 0.5:
            index.remove(*(column[rows] for column in columns))
            for row in rows[held].tolist():
                del model[row]
        else:
            index.insert(*(column[rows[~held]] for column in columns), slots=rows[~held].astype(np.int32))
            model.update(zip(rows[~held].tolist(), rows[~held].tolist(), strict=True))
        wanted = [model.get(row, -1) for row in range(len(handles))]
        assert index.lookup(*columns).tolist() == wanted
        parts = [index.lookup(*(column[at : at + 8] for column in columns)) for at in range(0, len(handles), 8)]
        assert (np.concatenate(parts).tolist(), len(index)) == (wanted, len(model))

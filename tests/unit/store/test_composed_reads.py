"""The text of a read is made once for all reads of its shape, and holds no value."""

from dataclasses import fields

import pytest
import sqlalchemy as sa

from argosy_store import JobFilter, LabelRequirement
from argosy_store.postgres.connection import compiled
from argosy_store.replicas.job_filters import conditions, filter_values, window_values
from argosy_store.schema.tables import jobs

_LABELS = ("In", "NotIn", "Exists", "DoesNotExist")


def _filter(number: int) -> JobFilter:
    """Return a filter that asks for all there is, with values of its own."""
    values = tuple(f"value{number}{place}" for place in range(number % 3 + 1))
    return JobFilter(
        queue_id=number,
        among_queues=values,
        job_set=f"set{number}",
        states=frozenset({number % 3 + 1, 5}),
        labels=tuple(
            LabelRequirement(key=f"key{number}", operator=operator, values=values)  # type: ignore[arg-type]
            for operator in _LABELS
        ),
        handles=tuple(range(number, 2 * number)),
        from_time_us=number * 86_400_000_000,
        before_time_us=number * 86_400_000_001,
    )


def _select(names: tuple[str, ...]) -> sa.Select[tuple[int]]:
    return sa.select(jobs.c.handle).where(*conditions(names))


def test_reads_of_one_shape_are_compiled_once_and_hold_no_value() -> None:
    """Values that differ, and differ in number, give the same text."""
    shapes = [tuple(window_values([n, n + 1])) + tuple(filter_values(_filter(n))) for n in (70_001, 80_002)]
    compiled.cache_clear()
    texts = [compiled(_select, shape) for shape in shapes]
    assert texts[0] is texts[1]
    assert compiled.cache_info().misses == 1
    assert not any(word in repr(texts[0]) for word in ("70001", "value", "set7", "key7"))


@pytest.mark.parametrize("part", [field.name for field in fields(JobFilter)])
def test_each_part_that_is_asked_for_is_a_parameter(part: str) -> None:
    """None is left out: a change of jobs would go to more than are meant."""
    values = filter_values(JobFilter(**{part: getattr(_filter(7), part)}))
    text, _ = compiled(_select, tuple(values))
    assert values
    assert all(f"%({name})s" in text for name in values)


def test_texts_are_kept_up_to_a_bound() -> None:
    """A client that asks for ever other labels takes no more memory."""
    most = compiled.cache_info().maxsize
    assert most is not None
    assert most <= 1000

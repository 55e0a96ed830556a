"""The reader that knows alike pods answers as the one that reads every bag anew, whatever it is given."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.job.reading.spec_reader import SpecReader

LIMITS: Final = SpecLimits(max_depth=12, max_pod_bytes=1500)
POD: Final = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"x/y":"1:2"}},"spec":{"containers":[{"name":'
    '"main","image":"app:1","resources":{"requests":{"cpu":"1","memory":"1Gi"}},"env":[{"name":"JOB","value":"1"}]}]}}'
)

TWICE_AND_NAMELESS: Final = (
    POD.replace('"name":"a",', "", 1).replace('"1"', '"2"', 1).replace('"env":', '"env":[],"env":')
)
ODD: Final = POD.replace('"annotations"', '"labels":{"value":"a"},"annotations"')
DECLARING: Final = POD.replace('"x/y":"1:2"', '"argosy.dev/references":"[\\"/spec/containers/0/env/0/value\\"]"')


class Pairs(list[tuple[str, Any]]):
    """An object as pairs, so that keys may stand twice."""


TEXTS: Final = st.sampled_from(["", "a", ":", '":', 'a":"b', "\\u003a", "é", " ", "env", "busybox:stable", "{", "NaN"])
"""Strings that are hard on whoever counts colons, quotes or keys."""
SCALARS: Final = st.one_of(
    TEXTS, st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, 1.5, 10**30, float("nan"), float("inf")])
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.lists(st.tuples(TEXTS, inner), max_size=3).map(Pairs)),
    max_leaves=6,
)
KEYS: Final = st.sampled_from(
    ["name", "image", "env", "args", "command", "x", "labels", "annotations", "metadata", "spec", "kind", "resources"]
) | st.just("value")


def to_pairs(value: Any) -> Any:
    """Return a document with its objects as pairs."""
    if isinstance(value, dict):
        return Pairs((key, to_pairs(item)) for key, item in value.items())
    return [to_pairs(item) for item in value] if isinstance(value, list) else value


def objects(value: Any) -> list[Pairs]:
    """Return all objects of a document."""
    if isinstance(value, Pairs):
        return [value, *(found for _, item in value for found in objects(item))]
    return [found for item in value for found in objects(item)] if isinstance(value, list) else []


def render(value: Any, draw: st.DrawFn) -> str:
    """Return JSON, now and then with space around colons or an escaped colon."""
    if isinstance(value, Pairs):
        colon = draw(st.sampled_from([":", ":", " :", ": "]))
        return "{" + ",".join(render(key, draw) + colon + render(item, draw) for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(render(item, draw) for item in value) + "]"
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    if isinstance(value, str) and ":" in value and draw(st.integers(0, 3)) == 0:
        return text.replace(":", draw(st.sampled_from(["\\u003a", "\\u003A"])))
    return text


@st.composite
def manifests(draw: st.DrawFn) -> bytes:
    """Draw pods in which some objects have other, further or repeated keys."""
    document = to_pairs(json.loads(POD))
    for _ in range(draw(st.integers(0, 3))):
        target = draw(st.sampled_from(objects(document)))
        pair = (draw(KEYS), draw(VALUES))
        if target and draw(st.booleans()):
            place = draw(st.integers(0, len(target) - 1))
            keeps_key, replaces = draw(st.booleans()), draw(st.booleans())
            target[place : place + replaces] = [(target[place][0], pair[1]) if keeps_key else pair]
        else:
            target.append(pair)
    ending = draw(st.sampled_from(["", "", "", " ", "x", "{}"]))
    return (render(document, draw) + ending).encode()


def with_other_values(spec: bytes) -> bytes:
    """Return a manifest in which texts called `value`, and the first of arguments, are others."""
    return re.sub(rb'("value" ?: ?"|"args" ?: ?\[")[^"]*"', rb'\1 other:"', spec)


@settings(max_examples=100)
@given(st.lists(manifests(), min_size=1, max_size=6))
@example([POD.encode(), POD.replace('"env":', '"env":[":"],"env":').encode()])
@example([POD.encode(), POD.replace('"name":"a"', '"name":"b","name":"a"').encode()])
@example([POD.encode(), POD.replace('"env":', '"env"  :[],"env":').replace('"1"', '"1\\u003a"').encode()])
@example([POD.replace('"a"', "null", 1).replace('"1"', '"2"', 1).encode(), TWICE_AND_NAMELESS.encode()])
@example([POD.encode(), POD.replace('{"x/y":"1:2"}', '["x/y"]').replace('"env":', '"env":[],"env":').encode()])
@example([POD.encode(), POD.replace('"value":"1"', '"value":NaN').encode()])
@example([POD.encode(), POD.replace('"value":"1"', '"value":' + "[" * 40 + "]" * 40).encode()])
@example([POD.encode(), POD.replace('"value":"1"', '"value":"' + "x" * 1400 + '"').encode()])
@example([POD.encode(), POD.replace('"value":"1"', '"value":\x00').encode(), POD.replace('"1"', '"\x01"').encode()])
@example([ODD.encode(), ODD.replace('"value":"a"', '"value":"b c"').encode()])
@example([DECLARING.replace('"value":"1"', '"value":"a"').encode(), DECLARING.encode()])
def test_spec_reader_answers_as_read_bag_whatever_it_has_read_before(specs: list[bytes]) -> None:
    """Known outlines, forgotten ones and repeats change nothing in any answer."""
    reader = SpecReader(LIMITS, max_count=3)
    reader.read([POD.encode()])
    specs = [*specs, *map(with_other_values, specs)]
    for spec in specs * 2:
        assert reader.read([spec]) == read_bag([spec], LIMITS)
        assert len(reader) <= 3
    assert reader.read(specs) == read_bag(specs, LIMITS)

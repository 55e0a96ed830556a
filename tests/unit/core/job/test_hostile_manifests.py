"""Manifests whose values are anything but what their place wants: everything wrong is noted, nothing is raised."""

from __future__ import annotations

import json
from random import Random

import pytest

from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.job.reading.spec_reader import SpecReader
from argosy_testkit.hostile_requests import hostile_manifest


def test_every_drawn_manifest_is_read_or_refused_with_texts_that_can_be_sent() -> None:
    """Neither reader raises, they agree, and what they say is UTF-8."""
    random, reader = Random(8), SpecReader(SpecLimits())
    read_count = 0
    for _ in range(2000):
        manifests = [hostile_manifest(random) for _ in range(random.choice((1, 1, 2)))]
        bag = read_bag(manifests, SpecLimits())
        assert reader.read(manifests) == bag
        for violation in bag.violations:
            assert (violation.field + violation.description).encode()
        read_count += not bag.violations
    assert 100 < read_count < 1900


def pod(text: str) -> bytes:
    """Return a good pod whose argument is a text, as JSON writes it."""
    resources = {"requests": {"cpu": "1", "memory": "1"}}
    container = {"name": "m", "image": "i", "args": ["TEXT"], "resources": resources}
    return (
        json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}})
        .encode()
        .replace(b"TEXT", text.encode())
    )


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800", "\\uDFFF", "\\ude00\\ud83d", "\\\\\\u0000"])
def test_text_that_cannot_be_stored_is_refused(text: str) -> None:
    """NUL and half of a surrogate pair are no text anywhere in a manifest."""
    (violation,) = read_bag([pod(text)], SpecLimits()).violations
    assert violation.description == "a text holds NUL, or half of a surrogate pair, as \\ud800"


@pytest.mark.parametrize("text", ["\\ud83d\\ude00", "\\\\u0000", "\\\\ud800", "a\\nb\\u001b[0m"])
def test_text_that_only_looks_so_is_taken(text: str) -> None:
    """Whole pairs, backslashes before a u, newlines and escape signs are somebody's arguments."""
    assert read_bag([pod(text)], SpecLimits()).violations == ()

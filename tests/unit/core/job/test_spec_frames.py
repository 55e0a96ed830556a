"""Pods that differ in plain values only, known by their text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.job.reading.spec_frames import SpecFrames, cut_frame
from argosy_core.job.reading.spec_reader import SpecReader


def pod(*, labels: dict[str, str] | None = None, **of: Any) -> bytes:
    """Return a pod as compact JSON; its container has the further fields."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}, **of}
    metadata = {"labels": labels} if labels else {}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    return json.dumps(document, separators=(",", ":")).encode()


def env(value: str) -> list[dict[str, str]]:
    """Return an environment of one variable."""
    return [{"name": "JOB", "value": value}]


def with_value(text: bytes) -> bytes:
    """Return a pod in which something else stands for the value of its variable."""
    return pod(env=env("@")).replace(b'"@"', text)


def kept(manifest: bytes) -> str | None:
    """Return what is kept for pods like this one once it was learnt."""
    frames: SpecFrames[str] = SpecFrames(4)
    frame = cut_frame(manifest)
    assert frame is not None
    frames.learn(manifest, frame, "kept")
    return frames.find(frame)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod(env=env("1")), id="environment"),
        pytest.param(pod(args=["a", "b"], command=["c"], env=env("1")), id="lists"),
        pytest.param(pod(args=[]), id="empty-list"),
        pytest.param(pod(args=["a\\n"], env=env("1")), id="escape-elsewhere"),
        pytest.param(pod(), id="nothing-cut-out"),
    ],
)
def test_frame_is_kept_where_all_that_is_cut_out_is_free(manifest: bytes) -> None:
    """Environment, arguments and commands of containers may be anything."""
    assert kept(manifest) == "kept"


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod(labels={"value": "x"}), id="label"),
        pytest.param(pod(labels={"value": "x"}, env=env("\\u0040")), id="label-beside-environment"),
        pytest.param(pod(labels={'a"value': "x"}), id="key-that-ends-so"),
        pytest.param(pod(lifecycle={"preStop": {"exec": {"command": ["a"]}}}), id="command-of-a-hook"),
    ],
)
def test_frame_is_not_kept_where_a_rule_may_look_at_what_is_cut_out(manifest: bytes) -> None:
    """A label called `value` is judged each time."""
    assert kept(manifest) is None


@pytest.mark.parametrize("odd", ['a"', "\\", "\x01", "\x00"])
def test_values_that_are_not_plain_stay_in_the_frame(odd: str) -> None:
    """A value that could end its string, or is no JSON, makes another frame or none."""
    plain, other = pod(env=env("1")), with_value(b'"%b"' % odd.encode())
    assert cut_frame(other) != cut_frame(plain)
    assert cut_frame(pod(env=env("2"))) == cut_frame(plain)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(with_value(b"\x00"), id="as-cut-out"),
        pytest.param(with_value(b'"\xff"'), id="no-utf-8"),
        pytest.param(with_value(b'"' + b"x" * 70_000 + b'"'), id="too-long"),
        pytest.param(with_value(b'"1","value":"2"'), id="key-twice"),
        pytest.param(with_value(b'"1","valu":"2"'), id="misspelt"),
        pytest.param(with_value(b"1"), id="number"),
        pytest.param(with_value('"é"'.encode()), id="utf-8"),
    ],
)
def test_pod_is_read_as_in_full_though_another_of_nearly_its_text_is_known(manifest: bytes) -> None:
    """What is known of a text says nothing of one that is no JSON, too long, or wrong."""
    reader = SpecReader(SpecLimits())
    for _ in range(2):
        reader.read([pod(env=env("1"))])
    assert reader.read([manifest]) == read_bag([manifest], SpecLimits())


def test_frames_are_bounded_and_learnt_no_more_where_they_are_of_no_use() -> None:
    """Pods of ever new frames cost a few parses; each use of what was learnt allows one more."""
    frames: SpecFrames[int] = SpecFrames(2)
    texts = [pod(labels={"a": str(number)}) for number in range(5)]
    for number, text in enumerate(texts):
        frames.learn(text, text, number)
    assert [frames.find(text) for text in texts] == [0, 1, None, None, None]
    frames.learn(texts[2], texts[2], 2)
    assert [frames.find(text) for text in texts] == [None, 1, 2, None, None]
    assert len(frames) == 2
    long = pod(workingDir="x" * 5000)
    frames.learn(long, long, 9)
    assert frames.find(long) is None

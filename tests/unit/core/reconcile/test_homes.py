"""An object counts as a run's in the namespace alone that the run's row names: labels can be written by anybody."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.errors import InvalidRequest
from argosy_core.job.states import ObjectState
from argosy_core.reconcile import Observations, RunRows
from argosy_core.reconcile.homes import home_of, homes_of_body
from argosy_testkit.cluster_model import ModelObject, make_observations
from argosy_testkit.reconcile_world import World, rows_of

FORGED_UID = 777


def forged(
    handle: int, position: int = 0, *, state: ObjectState = ObjectState.RUNNING, namespace: str = "other", uid: int = 0
) -> ModelObject:
    """Return a pod with the labels of a first attempt, which somebody made in a namespace."""
    return ModelObject((handle, 1, position), uid or FORGED_UID, "Pod", state, namespace=namespace)


def rows_in(handles: list[int], *namespaces: str, seen: bool = False) -> RunRows:
    """Return rows of runs of a bag whose pods are in these namespaces."""
    manifests = [
        {"kind": "Pod", "metadata": {"name": f"o{index}", "namespace": namespace}}
        for index, namespace in enumerate(namespaces)
    ]
    return replace(rows_of(handles, seen=seen), bodies=(json.dumps(manifests).encode(),))


def see(world: World, *objects: ModelObject) -> None:
    """Let objects be seen by the watch."""
    world.reconciler.take_observed(make_observations(objects), world.now)


def test_a_pod_in_another_namespace_is_never_taken_for_the_runs(world: World) -> None:
    """Not before the run's own is made, not beside it, not when it ends, not when it goes."""
    world.give([7])
    see(world, forged(7))
    assert world.actions().creates is not None, "the run has none yet"
    see(world, forged(7, state=ObjectState.FAILED), replace(forged(7), is_gone=True))
    assert world.report() == []


def test_the_runs_own_pod_is_told_beside_one_that_claims_to_be_it(world: World) -> None:
    """Whichever is seen first."""
    world.give([7])
    see(world, forged(7, state=ObjectState.SUCCEEDED))
    world.settle(steps=1)
    world.cluster.show((7, 1, 0), ObjectState.RUNNING)
    world.watch()
    see(world, forged(7, state=ObjectState.FAILED))
    assert world.report() == [(7, 0, "RUNNING")]
    assert world.reports[-1].uid_column[0].tolist() != [FORGED_UID % 256, FORGED_UID // 256, *[0] * 14]


def test_what_was_held_back_is_taken_with_the_row_where_the_row_names_it(world: World) -> None:
    """After a restart both are there before the row; the list may have the other one first."""
    own = forged(7, namespace="mine", uid=1)
    held: list[Observations] = [make_observations([forged(7, state=ObjectState.SUCCEEDED), own])]
    world.reconciler.take_rows(rows_in([7], "mine", seen=True), world.now, held)
    assert world.report() == [(7, 0, "RUNNING")]
    world.stop(7)
    deletes = world.actions().deletes
    assert deletes is not None
    assert deletes.uid_column[0].tolist() == [1, *[0] * 15]


def test_a_run_of_which_only_a_claim_was_seen_is_made(world: World) -> None:
    """A pod that was forged while the executor was away does not stand in for the run's own."""
    held = [make_observations([forged(7)])]
    world.reconciler.take_rows(rows_in([7], "mine"), world.now, held)
    creates = world.actions().creates
    assert creates is not None
    assert creates.handle_column.tolist() == [7]


def test_each_object_of_a_bag_has_its_own_namespace(world: World) -> None:
    """And there are no more objects than the row has: one more could fail, and with it the bag."""
    world.reconciler.take_rows(rows_in([7], "a", "b"), world.now)
    see(world, forged(7, 0, namespace="b"), forged(7, 1, namespace="a", uid=2), forged(7, 2, namespace="a", uid=3))
    creates = world.actions().creates
    assert creates is not None
    assert creates.object_column.tolist() == [0, 1]
    see(world, forged(7, 0, namespace="a", uid=4), forged(7, 1, namespace="b", uid=5))
    assert sorted(world.report()) == [(7, 0, "RUNNING"), (7, 1, "RUNNING")]


def test_what_a_claim_says_of_leaderless_time_is_not_heard(world: World) -> None:
    """A run would be stopped, for its leader is away, by whoever wrote that on a pod of theirs."""
    world.give([7])
    world.settle(steps=1)
    world.reconciler.take_observed(replace(make_observations([forged(7)]), stop_after_s={0: 1.0}), world.now)
    assert not world.reconciler.stops_when_cut_off
    assert world.reconciler.next_actions(world.now, may_act=False, silent_s=100.0).deletes is None


def test_rows_name_the_namespaces_of_their_objects() -> None:
    """`default` where a manifest names none; a namespace is a number that no other has."""
    body = json.dumps([{"kind": "Pod"}, {"kind": "Pod", "metadata": {"namespace": "a"}}, {"metadata": None}]).encode()
    assert homes_of_body(body) == [home_of("default"), home_of("a"), home_of("default")]
    assert len({home_of(f"n{number}") for number in range(1000)} - {0, 1}) == 1000
    assert np.int64(home_of("a")) > 1


@pytest.mark.parametrize("body", [b"", b"{}x", b"[1]", b'[{"metadata": 3}]', b"3"])
def test_a_body_that_cannot_be_read_is_refused(body: bytes) -> None:
    """Submit never stores one."""
    with pytest.raises(InvalidRequest):
        homes_of_body(body)


_TEXTS = st.sampled_from(["a", "", "namespace", "metadata", "kind", "{", "}", '"', "\\", ",", ":", '","namespace":"b'])
_FLAT = st.dictionaries(_TEXTS, _TEXTS, max_size=2)
_METADATA = st.none() | st.dictionaries(
    st.sampled_from(["name", "namespace", "labels", "annotations"]), _TEXTS | _FLAT | st.none(), max_size=4
)


@st.composite
def pods(draw: st.DrawFn) -> str:
    """Return the text of a pod whose members and strings are in any order."""
    members: dict[str, object] = {"apiVersion": draw(_TEXTS), "kind": "Pod", "metadata": draw(_METADATA)}
    members["spec"] = {"volumes": draw(st.sampled_from([[], [{"metadata": {"namespace": "inner"}}]]))}
    metadata = members["metadata"]
    if isinstance(metadata, dict) and not isinstance(metadata.get("namespace"), str):
        metadata.pop("namespace", None)  # submit takes texts alone
    order = draw(st.permutations([name for name in members if name == "kind" or draw(st.booleans())]))
    return json.dumps(
        {name: members[name] for name in order}, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    )


@given(texts=st.lists(pods(), min_size=1, max_size=2))
def test_a_namespace_read_from_the_text_is_the_one_that_its_json_names(texts: list[str]) -> None:
    """Whatever else the text holds."""
    body = f"[{','.join(texts)}]"
    named = [(one.get("metadata") or {}).get("namespace") or "default" for one in json.loads(body)]
    assert homes_of_body(body.encode()) == [home_of(name) for name in named]


@pytest.mark.parametrize(
    "metadata", [{"namespace": "a"}, {"labels": {"b": "c"}, "name": "d", "namespace": "a"}, {"name": "d"}]
)
def test_the_namespace_of_a_usual_pod_is_read_without_parsing(
    metadata: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor reads one for each job that comes down."""
    body = json.dumps([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}]).encode()
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("it was parsed"))
    assert homes_of_body(body) == [home_of(str(metadata.get("namespace", "default")))]

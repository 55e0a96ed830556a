"""What the adapter remembers: where objects are."""

from __future__ import annotations

import pytest

from argosy_core.job.reading.naming import run_suffix
from argosy_kube.kubernetes.api.documents import Metadata
from argosy_kube.kubernetes.api.resources import BUILT_IN, PODS
from argosy_kube.kubernetes.ours.places import Place, PlaceIndex


@pytest.mark.parametrize("name", [f"work{run_suffix(11, 2)}", "of-another-form"])
def test_place_is_found_by_uid(name: str) -> None:
    """Names of ours are kept in part, others whole; both come back."""
    places = PlaceIndex()
    places.add(b"u" * 16, PODS, Metadata(name=name, namespace="ns"), (11, 2, 0))
    assert places.find(b"u" * 16) == Place(PODS, "ns", name)
    places.remove(b"u" * 16)
    assert places.find(b"u" * 16) is None


def test_list_forgets_what_it_does_not_show_and_keeps_what_came_meanwhile() -> None:
    """An object that was made while a list was under way stays known."""
    places = PlaceIndex()
    places.add(b"old", PODS, Metadata(name="a", namespace="ns"), (1, 1, 0))
    places.begin_list()
    places.add(b"made", BUILT_IN["Service"], Metadata(name="b", namespace="ns"), (2, 1, 0))
    places.end_list()
    assert places.find(b"old") is None
    assert places.find(b"made") == Place(BUILT_IN["Service"], "ns", "b")


def test_base_names_are_forgotten_with_their_objects() -> None:
    """Jobs that all have names of their own do not fill the memory of a process that lives long."""
    places = PlaceIndex()
    for number in range(5000):
        name = f"n{number}{run_suffix(number, 1)}"
        places.add(number.to_bytes(16, "little"), PODS, Metadata(name=name, namespace="ns"), (number, 1, 0))
    places.begin_list()
    kept = f"n7{run_suffix(7, 1)}"
    places.add((7).to_bytes(16, "little"), PODS, Metadata(name=kept, namespace="ns"), (7, 1, 0))
    places.end_list()
    assert places.stem_count == 1
    assert places.find((7).to_bytes(16, "little")) == Place(PODS, "ns", kept)

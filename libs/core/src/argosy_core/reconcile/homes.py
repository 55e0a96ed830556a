"""Namespaces that the objects of runs are in, as numbers: whoever may write labels can claim any run, but no namespace.

A run's row brings its manifests, and these say in which namespace each of its objects is made. An object of a run's
name and labels in another namespace was made by somebody else.

Source: design section 3, "Objects of a run"; docs/FAULTS.md.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.reconcile.columns import Observations, RunRows
from argosy_core.reconcile.rendering import DEFAULT_NAMESPACE

__all__ = ["NO_HOME", "home_of", "homes_of_body", "homes_of_observed", "is_one_pod", "part_of_rows"]

Int64Array = npt.NDArray[np.int64]
_KEPT_COUNT: Final = 10_000
NO_HOME: Final = 0
"""Of what no row names."""
_NOWHERE: Final = 1
"""Of what is seen in no namespace; no namespace has this number."""


def _pattern(text: str) -> re.Pattern[bytes]:
    """Return the expression in which S is a string without escapes, P a pair of such and a space any white space."""
    text = text.replace("P", "S : S").replace("S", '"[^"]*"').replace(" ", r"\s*")
    return re.compile(text.encode())


_NAMESPACE: Final = _pattern(
    r'\[ \{ (?:P , )*"metadata" : \{ (?:S : (?:S|\{ (?:P ,? )*\}) , )*?"namespace" : "([^"]*)"'
)
"""A bag's text up to its first namespace, where strings and objects of strings alone stand before it."""


@lru_cache(_KEPT_COUNT)
def home_of(namespace: str) -> int:
    """Return the number of a namespace: a digest of its name, above 1."""
    digest = blake2b(namespace.encode(errors="surrogatepass"), digest_size=8).digest()
    return max(int.from_bytes(digest, "little") >> 1, _NOWHERE + 1)


def is_one_pod(body: bytes) -> bool:
    """Return whether a bag is seen to be one pod, and its strings to be as written, without reading it as JSON.

    Every manifest has a key "kind", so one that stands once is one manifest, and that is a pod; a backslash could hide
    another.
    """
    return body.count(b'"kind"') == 1 and b"\\" not in body


def homes_of_body(body: bytes) -> list[int]:
    """Return for each object of a bag the number of the namespace in which it is made.

    Raises:
        InvalidRequest: The body is no JSON array of objects; submit never stores one.

    Complexity: linear; measured 1 to 3 us for nearly all pods, 8 to 13 where JSON must be read.
    """
    if is_one_pod(body):
        if b'"namespace"' not in body:
            return [home_of(DEFAULT_NAMESPACE)]
        if named := _NAMESPACE.match(body):
            return [home_of(named[1].decode() or DEFAULT_NAMESPACE)]
    try:
        return [
            home_of(str((manifest.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE))
            for manifest in json.loads(body)
        ]
    except (ValueError, TypeError, AttributeError) as cause:
        raise InvalidRequest("a spec's body is not a JSON array of manifests") from cause


def homes_of_observed(observed: Observations) -> Int64Array:
    """Return for each change the number of the namespace in which the object was seen."""
    column = observed.namespace_column
    homes = np.empty(len(observed), dtype=np.int64)
    if homes.size and not has_true(column != column[0]):  # as nearly always
        index = int(column[0])
        homes.fill(home_of(observed.texts[index]) if index >= 0 else _NOWHERE)
        return homes
    homes.fill(_NOWHERE)
    for index in np.unique(column[true_places(column >= 0)]).tolist():
        homes[column == index] = home_of(observed.texts[index])
    return homes


def part_of_rows(rows: RunRows, observed: Observations) -> Observations:
    """Return what was seen of the objects that rows name, where they name them.

    Args:
        rows: Rows, each member with the bag of its own.
        observed: What was seen before they came, of their members.

    Complexity: Python work per row and per change.
    """
    specs = dict(zip(Members(rows.handle_column, rows.ordinal_column).pairs(), rows.spec_column.tolist(), strict=True))
    seen = Members(observed.handle_column, observed.ordinal_column).pairs()
    named: dict[int, list[int]] = {}
    places = []
    for place, (key, position, home) in enumerate(
        zip(seen, observed.object_column.tolist(), homes_of_observed(observed).tolist(), strict=True)
    ):
        spec = specs.get(key)
        if spec is None:
            continue
        homes = named.get(spec)
        if homes is None:
            homes = named[spec] = homes_of_body(rows.bodies[spec])
        if position < len(homes) and homes[position] == home:
            places.append(place)
    return observed.part(np.array(places, dtype=np.int64))

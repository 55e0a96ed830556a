"""The parts of a create call that are not about state: recipes of a batch, and the answer under construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argosy_core.reconcile import Creates
from argosy_kube.port import CreateCode, CreateResult, Int32Array, Int64Array, UidArray
from argosy_kube.simulated.recipes import RecipeCache
from argosy_kube.tables import TextTable

__all__ = ["CreateResponse", "Intake", "read_recipes"]

_OBJECTS_PER_BAG = 32


class CreateResponse:
    """Columns of a CreateResult; every object is UNAVAILABLE until something else is said."""

    def __init__(self, count: int) -> None:
        """Start for `count` objects."""
        self._codes = np.full(count, CreateCode.UNAVAILABLE, dtype=np.int8)
        self._uids = np.zeros((count, 16), dtype=np.uint8)
        self._ours = np.zeros(count, dtype=np.bool_)
        self.existing_handle = np.zeros(count, dtype=np.int64)
        """(count,) handle of the existing object of ours."""
        self.existing_ordinal = np.zeros(count, dtype=np.int64)
        """(count,) attempt and member of the existing object of ours."""
        self._messages = np.full(count, -1, dtype=np.int32)
        self._texts = TextTable()

    def created(self, rows: Int64Array, uids: UidArray) -> None:
        """Say that the objects in these rows exist now."""
        self._codes[rows] = CreateCode.CREATED
        self._uids[rows] = uids

    def exists(self, row: int, uid: UidArray, *, is_ours: bool) -> None:
        """Say that an object with the name exists."""
        self._codes[row] = CreateCode.EXISTS
        self._uids[row] = uid
        self._ours[row] = is_ours

    def refuse(self, rows: Int64Array, code: CreateCode, message: str) -> None:
        """Say that the objects in these rows were not made, and why."""
        self._codes[rows] = code
        self._messages[rows] = self._texts.intern(message)

    def unknown(self, message: str) -> CreateResult:
        """Return an answer that tells nothing about any object, whatever was said before."""
        answer = CreateResponse(len(self._codes))
        answer.refuse(np.arange(len(self._codes)), CreateCode.UNAVAILABLE, message)
        return answer.result()

    def result(self) -> CreateResult:
        """Return the answer."""
        return CreateResult(
            code_column=self._codes,
            uid_column=self._uids,
            existing_ours_column=self._ours,
            existing_handle_column=self.existing_handle,
            existing_ordinal_column=self.existing_ordinal,
            message_column=self._messages,
            messages=self._texts.texts,
        )


def read_recipes(batch: Creates, cache: RecipeCache, answer: CreateResponse) -> Int32Array:
    """Return (n,) the recipe of each object, -1 where the answer says it is rejected.

    Complexity: one look-up per distinct (bag, object, metadata), array operations for the rest.
    """
    metadata_count = len(batch.metadata) + 1
    sources = batch.body_column.astype(np.int64) * _OBJECTS_PER_BAG + batch.object_column
    sources = sources * metadata_count + batch.metadata_column + 1
    if len(sources) and (sources == sources[0]).all():
        distinct, inverse = sources[:1], np.zeros(len(sources), dtype=np.int64)
    else:
        distinct, inverse = np.unique(sources, return_inverse=True)
    recipes = np.full(len(distinct), -1, dtype=np.int32)
    for position, source in enumerate(distinct.tolist()):
        rest, metadata = divmod(source, metadata_count)
        bag, index = divmod(rest, _OBJECTS_PER_BAG)
        found = cache.find(batch.bodies[bag], index, batch.metadata[metadata - 1] if metadata else b"")
        if isinstance(found, int):
            recipes[position] = found
        else:
            answer.refuse(np.flatnonzero(inverse == position), CreateCode.REJECTED, found)
    found_recipes: Int32Array = recipes[inverse]
    if cache.has_scaled:
        pairs = zip(found_recipes.tolist(), batch.owner_column.tolist(), strict=True)
        queued = [cache.for_queue(recipe, batch.owners[owner][0]) if recipe >= 0 else -1 for recipe, owner in pairs]
        found_recipes = np.array(queued, dtype=np.int32)
    return found_recipes


@dataclass(frozen=True, slots=True)
class Intake:
    """A create call that is being applied."""

    batch: Creates
    recipes: Int32Array
    installation: int
    answer: CreateResponse
    keys: Int64Array
    """(n,) what an object is found by, whatever its attempt and member."""

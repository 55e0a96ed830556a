"""Rows of distributed jobs: each member gets the bag of its own group.

Source: decision 0018.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argosy_core.arrays import true_places
from argosy_core.job.reading.pod_groups import is_of_groups, member_bags
from argosy_core.job.tables.members import member_of, place_of
from argosy_core.reconcile.columns import RunRows

__all__ = ["with_member_bags"]


def with_member_bags(rows: RunRows) -> RunRows:
    """Return rows in which every body is that of a member's bag; the same rows if no job has groups.

    Complexity: one search in each distinct body, and array operations over the rows of jobs with groups.
    """
    gangs = [index for index, body in enumerate(rows.bodies) if is_of_groups(body)]
    if not gangs:
        return rows
    bodies, specs = list(rows.bodies), rows.spec_column.copy()
    places_of_members = place_of(member_of(rows.ordinal_column))
    for index in gangs:
        bags = member_bags(rows.bodies[index])
        places = true_places(rows.spec_column == index)
        # A number beyond the maximum, which no leader gives, must not end an executor.
        specs[places] = len(bodies) + np.array(bags.group_of).take(places_of_members[places], mode="clip")
        bodies += bags.bodies
    return replace(rows, bodies=tuple(bodies), spec_column=specs)

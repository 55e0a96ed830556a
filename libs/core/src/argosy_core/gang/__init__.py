"""Gangs: where the pods of a distributed job go, all of them or none, near each other in the network.

Owns the tree that node labels make of a cluster (`topology`) and one placement of a pod group over a table of nodes
(`placing`, where to begin). Plain functions of columns: they know of no ledger, queue or leader.

Source: 003 "Distributed jobs", "Topology-aware scheduling"; design section 6, "hops"; section 7, invariant 7.
"""

from argosy_core.gang.placing import GangPlaces, SubGroup, place_gang
from argosy_core.gang.topology import Topology

__all__ = ["GangPlaces", "SubGroup", "Topology", "place_gang"]

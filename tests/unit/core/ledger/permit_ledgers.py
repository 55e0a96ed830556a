"""A ledger with pods that are resized, as tests of permits see it."""

import numpy as np

from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents
from argosy_core.nodes import NodeSpec

SETTINGS = PermitSettings(lease_s=6.0, margin_s=4.0, unit=(100, 10))
BOUNDS = Scaling(least=(100, 10), most=(800, 80))


class World:
    """A ledger with one node of 1000 millicores and 100 bytes, and pods called by small numbers."""

    def __init__(self) -> None:
        """No pod was ever seen, and the first list is over."""
        self.sequence = 0
        self.ledger = NodeLedger(permits=SETTINGS)
        self.permits = self.ledger.permits
        self.node("a")
        self.see({}, everything=True)

    def node(self, name: str, *, cpu: int = 1000, memory: int = 100, system_cpu: int = 0) -> None:
        """A node comes or changes."""
        total = {"cpu": cpu, "memory": memory, "pods": 200}
        self.ledger.put_nodes([NodeSpec(name=name, total=total, system={"cpu": system_cpu})])

    def see(
        self,
        pods: dict[int, tuple[int, int]],
        scaling: Scaling | None = BOUNDS,
        *,
        node: int = 0,
        ended: bool = False,
        everything: bool = False,
    ) -> None:
        """Pods are seen as large as said."""
        requests = np.zeros((len(pods), len(self.ledger.axis)), np.int64)
        requests[:, :2] = np.array(list(pods.values())).reshape(len(pods), 2)
        requests[:, 2] = 1
        uids = np.zeros((len(pods), 16), np.uint8)
        uids[:, 0] = list(pods)
        events = PodEvents(
            members=Members.of([0] * len(pods), [0] * len(pods)), uids=uids, nodes=np.full(len(pods), node, np.int32),
            ended=np.full(len(pods), ended), requests=requests,
            scalings={place: scaling for place in range(len(pods)) if scaling is not None},
        )  # fmt: skip
        (self.ledger.observe_all if everything else self.ledger.observe)(events)
        self.ledger.check_invariants()

    def rows(self, *pods: int) -> np.ndarray:
        """Rows of pods."""
        uids = np.zeros((len(pods), 16), np.uint8)
        uids[:, 0] = pods
        return self.permits.pods.rows(uids.view(np.int64))

    def join(self, *pods: int, ceiling: tuple[int, int] = (200, 20), held: bool = True, **who: int) -> list[int]:
        """An agent says which pods it has; each at one ceiling."""
        rows = self.rows(*pods)
        self.sequence += 1
        refused = self.permits.join(
            rows, np.tile(np.array(ceiling)[:, None], len(rows)), np.full(len(rows), held),
            numbers=np.full(len(rows), self.sequence), session=who.get("session", 1), process=who.get("process", 1),
        )  # fmt: skip
        self.ledger.check_invariants()
        return list(refused)

    def ask(
        self, wanted: dict[int, tuple[int, int]], *, bundle: bool = False, session: int = 1, settle: bool = True
    ) -> list[int]:
        """An agent says what its pods are to have; return what is refused."""
        rows = self.rows(*wanted)
        self.sequence += 1
        numbers = np.full(len(rows), self.sequence)
        self.permits.check_numbers(rows, numbers, session)
        refused = self.permits.request(
            rows, np.array(list(wanted.values())).T, np.full(len(rows), bundle),
            numbers=numbers, session=np.full(len(rows), session),
        )  # fmt: skip
        if settle:
            self.permits.settle(rows)
        self.ledger.check_invariants()
        return list(refused)

    def permit(self, pod: int) -> tuple[int, ...]:
        """What a pod may have."""
        return tuple(self.permits.pods.permit[:, self.rows(pod)[0]].tolist())

    @property
    def reserved(self) -> tuple[int, ...]:
        """What is taken of the node."""
        return tuple(self.permits.room.node_accounts().reserved[:, 0].tolist())

    @property
    def buffer(self) -> tuple[int, ...]:
        """What of it is booked for want of knowledge."""
        return tuple(self.permits.room.node_accounts().buffer[:, 0].tolist())

    @property
    def pressure(self) -> tuple[int, ...]:
        """What was denied."""
        return tuple(self.permits.room.node_accounts().pressure[:, 0].tolist())

"""A sampler's ledger with pods that are resized, and the agents that speak to it."""

from typing import Any

import numpy as np

from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.permits import (
    AgentHello,
    AgentMessage,
    Inventory,
    Outcome,
    PermitRequest,
    Permits,
    PermitService,
)

BOUNDS = Scaling(least=(100, 10), most=(800, 80))


def uids(*pods: int) -> np.ndarray:
    """Uids of pods called by small numbers."""
    raw = np.zeros((len(pods), 16), np.uint8)
    raw[:, 0] = pods
    return raw.view(np.int64)


class World:
    """A service, one node of 1000 and 100, and agents called by letters."""

    def __init__(self, *first: int, **limits: int) -> None:
        """All is listed: the first pods, which another sampler may have permitted anything."""
        self.ledger = NodeLedger(permits=PermitSettings(lease_s=6.0, margin_s=4.0, unit=(100, 10), rises_per_s=2.0))
        self.ledger.put_nodes([NodeSpec(name="n", total={"cpu": 1000, "memory": 100})])
        self.service = PermitService(self.ledger, cluster="c", cluster_uid="u", **limits)
        self.numbers = 0
        self.sequences: dict[int, int] = {}
        self.now_s = 0.0
        self.see(*first)

    def see(self, *pods: int, scaling: Scaling | None = BOUNDS) -> None:
        """Exactly these pods are there, each as large as 200 and 20."""
        count = len(pods)
        self.ledger.observe_all(
            PodEvents(
                members=Members.of([0] * count, [0] * count), uids=uids(*pods).view(np.uint8).reshape(-1, 16),
                nodes=np.zeros(count, np.int32), ended=np.zeros(count, np.bool_),
                requests=np.tile(np.array([200, 20, 1], np.int64), (count, 1)),
                scalings=dict.fromkeys(range(count), scaling) if scaling else {},
            )
        )  # fmt: skip

    def begin(self, agent: str = "a", **wrong: Any) -> int:
        """An agent dials."""
        fields: dict[str, Any] = {"cluster": "c", "cluster_uid": "u", "process_id": agent.encode() * 16, **wrong}
        welcome, _ = self.service.begin(AgentHello(**fields), self.now_s)
        self.sequences[welcome.session] = 1
        return welcome.session

    def listen(self, until_s: float) -> list[int]:
        """Time passes and the streams are read, half a second at a time; return the sessions that end."""
        ended: list[int] = []
        while self.now_s < until_s:
            self.now_s = min(self.now_s + 0.5, until_s)
            ended += self.service.tick(self.now_s).ended
        return ended

    def say(self, session: int, message: AgentMessage) -> Outcome:
        """An agent says something in turn."""
        self.sequences[session] += 1
        outcome = self.service.take([(session, self.sequences[session], message)], self.now_s)
        self.ledger.check_invariants()
        for error in outcome.broken.values():
            raise error
        return outcome

    def tell(self, session: int, *pods: int, held: bool = True) -> Outcome:
        """An agent says which pods it has."""
        self.numbers += 1
        count = len(pods)
        ceilings = np.tile(np.array([[200], [20]]), count)
        return self.say(
            session,
            Inventory(
                uids=uids(*pods),
                ceilings=ceilings,
                held=np.full(count, held),
                permitted=np.full(count, held),
                numbers=np.full(count, self.numbers),
            ),
        )

    def ask(self, session: int, wanted: dict[int, tuple[int, int]]) -> Outcome:
        """An agent says what its pods are to have."""
        self.numbers += 1
        return self.say(
            session,
            PermitRequest(
                uids=uids(*wanted), wanted=np.array(list(wanted.values())).T,
                bundle=np.zeros(len(wanted), np.bool_), numbers=np.full(len(wanted), self.numbers),
            ),
        )  # fmt: skip


def permits_in(outcome: Outcome, session: int) -> dict[int, list[int]]:
    """Permits told to a session, by pod."""
    return {
        int(reply.uids.view(np.uint8).reshape(-1, 16)[at, 0]): reply.permits[:, at].tolist()
        for to, reply in outcome.replies
        if to == session and isinstance(reply, Permits)
        for at in range(len(reply.uids))
    }

"""No node is promised twice, whatever happens to agents, sampler and leader; and each defence is needed for that.

`tests/benchmarks/permit_fuzz.py` plays a million events of the same worlds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from argosy_core.ledger import NodeLedger, PermitBook, PermitSettings
from argosy_testkit.permit_world import PermitWorld

_EVENTS = 1000


def ledgers_with(book: type[PermitBook]) -> Callable[..., NodeLedger]:
    """Return what makes ledgers with other books."""

    def make(*, permits: PermitSettings) -> NodeLedger:
        ledger = NodeLedger(permits=permits)
        ledger.permits = book(ledger._placements, ledger.nodes, permits)
        return ledger

    return make


def play(world: PermitWorld) -> None:
    """Let everything happen."""
    for number in range(_EVENTS):
        world.step()
        if number % 20 == 0:
            world.check_books()


@pytest.mark.parametrize("seed", range(3))
def test_no_node_is_promised_twice_in_random_worlds(seed: int) -> None:
    """Restarts of every part, lost and repeated messages, late watches, leases that run out."""
    world = PermitWorld(seed, restart_ratio=0.002)
    play(world)
    assert world.counts["message"] > 50


class WithoutUncertainty(PermitBook):
    """After a start pods count as they are."""

    def start(self, now_s: float) -> None:
        """Expect no lease of before."""
        self.now_s = self._uncertain_until_s = now_s


class TrustsEverybody(PermitBook):
    """An agent that only just started is taken for the one that holds the lease."""

    def join(self, rows: Any, ceilings: Any, held: Any, **who: Any) -> Any:
        """Take any pod for held."""
        return super().join(rows, ceilings, np.ones_like(held), **who)


class LetsAnybodyJoin(PermitBook):
    """A pod goes to whoever asks, while another process's lease lasts."""

    def join(self, rows: Any, ceilings: Any, held: Any, **who: Any) -> Any:
        """Take any process for the one that held the pod."""
        self.pods.process[rows] = who["process"]
        return super().join(rows, ceilings, held, **who)


class FreesAtOnce(PermitBook):
    """A stream that breaks gives its permits back."""

    def cut_off(self, session: int, renewed_s: float) -> None:
        """Take a broken stream for a goodbye."""
        self.leave(session)


class WithoutRoom(PermitBook):
    """Whatever is asked is given."""

    def _give(self, rows: Any, at: Any) -> None:
        self.pods.permit[:, rows] = np.maximum(self.pods.permit[:, rows], self.pods.wanted[:, rows])
        self._rebook(rows)


@pytest.mark.parametrize(
    ("book", "seed"),
    [
        (WithoutUncertainty, 13),
        (TrustsEverybody, 19),
        (LetsAnybodyJoin, 11),
        (FreesAtOnce, 15),
        (WithoutRoom, 0),
    ],
)
def test_without_a_defence_a_node_that_is_promised_twice_is_caught(book: type[PermitBook], seed: int) -> None:
    """The worlds find what each defence is for."""
    world = PermitWorld(seed, make_ledger=ledgers_with(book), restart_ratio=0.002)
    with pytest.raises(AssertionError):
        play(world)


def test_agents_that_take_permits_which_answer_an_earlier_word_are_caught() -> None:
    """A permit that crosses a request is not what the sampler has booked any more."""
    world = PermitWorld(0, heeds_numbers=False, restart_ratio=0.002)
    with pytest.raises(AssertionError):
        play(world)

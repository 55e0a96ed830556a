"""No node is promised twice, whatever happens to agents, sampler and leader; and each defence is needed for that.

`tests/benchmarks/permit_fuzz.py` plays a million events of the same worlds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.ledger import NodeLedger, PermitLedger, PermitSettings
from argosy_core.ledger.permit_notes import NotedPermits
from argosy_testkit.permit_world import PermitWorld

_EVENTS = 1000


def ledgers_with(kind: type[PermitLedger]) -> Callable[..., NodeLedger]:
    """Return what makes ledgers with permits of another kind."""

    def make(*, permits: PermitSettings) -> NodeLedger:
        ledger = NodeLedger(permits=permits)
        ledger.permits = kind(ledger._placements, ledger.nodes, permits)
        return ledger

    return make


def ledgers_with_notes(notes: type[NotedPermits]) -> Callable[..., NodeLedger]:
    """Return what makes ledgers that keep notes otherwise."""

    def make(*, permits: PermitSettings) -> NodeLedger:
        ledger = NodeLedger(permits=permits)
        ledger.permits.notes = notes(ledger.permits.pods, permits.noted_by, quiet_s=permits.note_quiet_s)
        return ledger

    return make


def play(world: PermitWorld) -> None:
    """Let everything happen."""
    for number in range(_EVENTS):
        world.step()
        if number % 20 == 0:
            world.check_ledger()


@pytest.mark.parametrize(("seed", "has_notes"), [(0, False), (1, False), (0, True), (96, True)])
def test_no_node_is_promised_twice_in_random_worlds(seed: int, *, has_notes: bool) -> None:
    """Restarts of every part, lost and repeated messages, late watches, leases that run out; with durable permits."""
    world = PermitWorld(seed, restart_ratio=0.002, has_notes=has_notes)
    play(world)
    assert world.counts["message"] > 30
    assert (world.counts["note"] > 5) == has_notes


def test_no_node_is_promised_twice_while_the_configuration_changes() -> None:
    """Units, watermarks and what is kept for the system change under load, and change back."""
    rules = [
        PermitRules(watermark=0.6),
        PermitRules(lease_s=2.0, margin_s=7.0, rises_per_s=3.0),
        PermitRules(unit="cpu=50m,memory=5"),
        PermitRules(),
    ]
    rules.append(PermitRules(node_system={"n1": "cpu=400m,memory=30"}, node_units={"n2": "cpu=200m,memory=20"}))
    world = PermitWorld(5, has_notes=True)
    for number in range(_EVENTS):
        if number % 40 == 0:
            world.configure(rules[number // 40 % len(rules)])
        world.step()
        if number % 20 == 0:
            world.check_ledger()
    assert world.counts["permit"] > 20


class WithoutUncertainty(PermitLedger):
    """After a start pods count as they are."""

    def start(self, now_s: float) -> None:
        """Expect no lease of before."""
        self.now_s = self._uncertain_until_s = now_s


class TrustsEverybody(PermitLedger):
    """An agent that only just started is taken for the one that holds the lease."""

    def join(self, rows: Any, ceilings: Any, held: Any, **who: Any) -> Any:
        """Take any pod for held."""
        return super().join(rows, ceilings, np.ones_like(held), **who)


class LetsAnybodyJoin(PermitLedger):
    """A pod goes to whoever asks, while another process's lease lasts."""

    def join(self, rows: Any, ceilings: Any, held: Any, **who: Any) -> Any:
        """Take any process for the one that held the pod."""
        self.pods.process[rows] = who["process"]
        return super().join(rows, ceilings, held, **who)


class FreesAtOnce(PermitLedger):
    """A stream that breaks gives its permits back."""

    def cut_off(self, session: int, renewed_s: float) -> None:
        """Take a broken stream for a goodbye."""
        self.leave(session)


class WithoutRoom(PermitLedger):
    """Whatever is asked is given."""

    def _give(self, rows: Any, at: Any) -> None:
        self.pods.permit[:, rows] = np.maximum(self.pods.permit[:, rows], self.pods.wanted[:, rows])
        self.room.rebook(rows)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        (WithoutUncertainty, 25),
        (TrustsEverybody, 19),
        (LetsAnybodyJoin, 11),
        (FreesAtOnce, 15),
        (WithoutRoom, 0),
    ],
)
def test_without_a_defence_a_node_that_is_promised_twice_is_caught(kind: type[PermitLedger], seed: int) -> None:
    """The worlds find what each defence is for."""
    world = PermitWorld(seed, make_ledger=ledgers_with(kind), restart_ratio=0.002)
    with pytest.raises(AssertionError):
        play(world)


class TellsAhead(NotedPermits):
    """Permits are told before their notes are written."""

    def may_tell(self, rows: Any) -> Any:
        """Tell all."""
        return rows


class TrustsSilence(NotedPermits):
    """What a process before this one is about to write is not waited for."""

    def see(self, row: int, text: str, *, is_first_list: bool) -> None:
        """Need no note of its own."""
        super().see(row, text, is_first_list=is_first_list)
        self._pods.needs_note[row] = False


class TellsWhatIsNoted(NotedPermits):
    """Whatever the note allows is told to an agent that has some permit, as if it had that one."""

    def keep(self, rows: Any, permitted: Any) -> None:
        """Take what is noted for what is permitted."""
        self._pods.kept[:, rows] = np.where(permitted, self._pods.noted[:, rows], 0)


@pytest.mark.parametrize(("notes", "seed"), [(TellsAhead, 10), (TrustsSilence, 29), (TellsWhatIsNoted, 29)])
def test_without_a_defence_of_notes_a_node_that_is_promised_twice_is_caught(
    notes: type[NotedPermits], seed: int
) -> None:
    """A sampler that starts books pods by their notes, so those must be true."""
    world = PermitWorld(seed, make_ledger=ledgers_with_notes(notes), restart_ratio=0.01, has_notes=True)
    with pytest.raises(AssertionError):
        play(world)


def test_agents_that_take_permits_which_answer_an_earlier_word_are_caught() -> None:
    """A permit that crosses a request is not what the sampler has booked any more."""
    world = PermitWorld(0, heeds_numbers=False, restart_ratio=0.002)
    with pytest.raises(AssertionError):
        play(world)

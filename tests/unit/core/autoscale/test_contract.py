"""What a pod says of its own size: how far it counts, for how long, and what silence and lies come to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.autoscale import Agent, AgentSettings, Amounts, Horizon, PredictorSettings, next_actions
from argosy_core.autoscale.contract import word_of
from argosy_core.autoscale.events import (
    Actions,
    ContractAnswered,
    ContractQuestion,
    Event,
    Leased,
    MetricsSeen,
    Permit,
    PermitsTold,
    PodSeen,
    ScalingPolicy,
    SessionUp,
)

UNIT = Amounts(1000, 1 << 30)
SETTINGS = AgentSettings(max_units=8)
FORGETFUL = PredictorSettings(
    horizons=(Horizon(0.1, 1.0),), prior_s=0.0, width_units=1e-9, width_ratio=0.0, equal_ratio=0.0,
    grow_gain_units=0.0, shrink_gain_units=0.0,
)  # fmt: skip
PORT = 8321


class World:
    """A pod of four units between one and six, permitted them, that names a port; nobody has asked it yet."""

    def __init__(self, port: int = PORT) -> None:
        """Give it a session and its permit."""
        self.agent, self.now_s = Agent(SETTINGS, FORGETFUL), 1000.0
        policy = ScalingPolicy(least=UNIT, most=UNIT.times(6), contract_port=port)
        size = UNIT.times(4)
        self.tell(PodSeen(uid="pod", version=1, policy=policy, desired=size, allocated=size, actual=size), SessionUp(1))
        self.first = self.permit(4)

    def tell(self, *events: Event, after_s: float = 0.0) -> Actions:
        """Tell events, after some time, and return what is to be done."""
        self.now_s += after_s
        for event in events:
            self.agent.take(event, self.now_s)
        return next_actions(self.agent, self.now_s)

    def permit(self, count: int) -> Actions:
        """Answer the last request."""
        one = Permit(uid="pod", sequence=self.agent.pods["pod"].sequence, amounts=UNIT.times(count), unit=UNIT)
        return self.tell(PermitsTold(1, (one,)), Leased(1, self.now_s + 10_000.0))

    def use(self, cores: float, after_s: float = 0.0) -> Actions:
        """Tell what the pod uses."""
        return self.tell(
            MetricsSeen(uids=("pod",), load_cores=np.array([cores]), memory_bytes=np.array([0.6e9])), after_s=after_s
        )

    def answer(self, question: ContractQuestion, needs: Amounts | None, after_s: float = 0.0) -> Actions:
        """Let the pod answer."""
        return self.tell(ContractAnswered(uid="pod", number=question.number, needs=needs), after_s=after_s)

    def idle(self) -> ContractQuestion:
        """Let it use next to nothing; return the question whether it may have one unit."""
        self.answer(self.first.questions[0], Amounts(0, 0))
        (question,) = self.use(0.1, after_s=2.0).questions
        return question


def test_a_pod_that_names_no_port_is_asked_nothing_and_shrinks_at_once() -> None:
    """The contract is off unless the pod's annotations have it."""
    world = World(port=0)
    assert not world.first.questions
    shrunk = world.use(0.1, after_s=2.0)
    assert [one.amounts for one in shrunk.resizes] == [UNIT]
    assert not shrunk.questions


def test_a_pod_is_asked_before_it_shrinks_and_shrinks_to_what_it_says_that_it_needs() -> None:
    """It is told what it has and what is proposed; until it has answered it keeps its size."""
    world = World()
    question = world.idle()
    assert (question.port, question.size, question.proposed) == (PORT, UNIT.times(4), UNIT)
    assert not world.tell(after_s=0.5).resizes
    (resize,) = world.answer(question, Amounts(0, (2 << 30) + 1)).resizes
    assert resize.amounts == UNIT.times(3)


def test_a_pod_that_asks_for_more_grows_within_its_bounds_and_by_a_permit_only() -> None:
    """However much it names, what is asked for is at most its largest size, and comes when it is permitted."""
    world = World()
    grown = world.answer(world.first.questions[0], Amounts((1 << 63) - 1, (1 << 63) - 1))
    assert [one.wanted for one in grown.requests] == [UNIT.times(6)]
    assert not grown.resizes
    assert [one.amounts for one in world.permit(5).resizes] == [UNIT.times(5)]


def test_silence_refuses_nothing_and_a_silent_pod_is_asked_ever_less() -> None:
    """Nobody waits for a pod that hangs: it shrinks, and the time until it is asked again doubles up to a bound."""
    world = World()
    question = world.first.questions[0]
    assert [one.amounts for one in (world.answer(question, None), world.use(0.1, after_s=1.0))[1].resizes] == [UNIT]
    waits = []
    for _ in range(6):
        asked_s = world.now_s
        while not (asked := world.tell(after_s=1.0).questions):
            pass
        waits.append(world.now_s - asked_s)
        world.answer(asked[0], None)
    assert waits[-2:] == [80.0, 80.0]
    assert waits == sorted(waits)


def test_a_question_that_nobody_tells_the_end_of_is_given_up_by_time() -> None:
    """What the agent wakes for is enough: no further event is needed to shrink."""
    world = World()
    world.idle()
    wake_s = world.tell().wake_at_s
    resized = world.tell(after_s=wake_s - world.now_s)
    while not resized.resizes:
        assert world.now_s < 1010.0
        resized = world.tell(after_s=max(resized.wake_at_s - world.now_s, 0.01))
    assert resized.resizes[0].amounts == UNIT


def test_an_answer_to_an_earlier_question_changes_nothing() -> None:
    """Each answer is for what was proposed with it."""
    world = World()
    question = world.idle()
    assert not world.answer(replace(question, number=question.number - 1), Amounts(0, 0)).resizes


def test_a_word_that_is_not_renewed_ends() -> None:
    """A pod that is silent afterwards is sized by what it uses."""
    world = World()
    world.answer(world.first.questions[0], UNIT.times(6))
    world.permit(6)
    (asked,) = world.tell(after_s=SETTINGS.contract_interval_s).questions
    world.answer(asked, None)
    assert world.agent.pods["pod"].goal == UNIT.times(4)


def test_a_pod_keeps_itself_above_its_use_for_a_bounded_time_only() -> None:
    """A pod that always needs all it can have gives it back after the bound, and has no say for as long again."""
    world = World()
    question, held_s = world.idle(), world.now_s
    actions, sizes = world.answer(question, UNIT.times(4)), set()
    while not actions.resizes:
        actions = world.tell(after_s=1.0)
        if actions.questions and not actions.resizes:
            actions = world.answer(actions.questions[0], UNIT.times(4))
    assert actions.resizes[0].amounts == UNIT
    assert world.now_s - held_s == SETTINGS.contract_hold_s
    rests_s = world.now_s
    while world.now_s < rests_s + SETTINGS.contract_hold_s - 10.0:
        if asked := world.tell(after_s=1.0).questions:
            world.answer(asked[0], UNIT.times(4))
        sizes.add(world.agent.pods["pod"].goal)
    assert sizes == {UNIT}


def test_a_word_above_the_largest_size_holds_nothing_of_a_pod_that_needs_that_by_its_use() -> None:
    """The time that a word may hold begins when it does."""
    world = World()
    world.answer(world.first.questions[0], Amounts(0, 0))
    (asked,) = world.use(5.3, after_s=5.0).questions
    world.answer(asked, UNIT.times(100))
    assert world.agent.pods["pod"].contract.held_since_s is None
    assert "says that it needs" not in "; ".join(entry.what for entry in world.agent.story("pod"))


def test_a_pod_that_is_not_to_be_resized_is_not_asked() -> None:
    """Whoever switches autoscaling off, or has a refusal, hears nothing."""
    world = World()
    world.answer(world.first.questions[0], Amounts(0, 0))
    seen = world.agent.pods["pod"].seen
    world.tell(replace(seen, version=2, policy=replace(seen.policy, is_on=False)))
    assert not world.tell(after_s=60.0).questions


@pytest.mark.parametrize("needs", [None, Amounts(0, 0), UNIT.times(4)])
def test_a_lower_permit_is_obeyed_whatever_the_pod_says(needs: Amounts | None) -> None:
    """A pod's word keeps nothing that is not permitted."""
    world = World()
    world.answer(world.first.questions[0], needs)
    pod = world.agent.pods["pod"]
    pod.permit = UNIT.times(2)
    assert [one.amounts for one in world.use(0.1, after_s=2.0).resizes][:1] in ([UNIT.times(2)], [UNIT])


@pytest.mark.parametrize(
    ("needs", "word"), [(None, "silent"), (0, "agrees"), (2, "agrees"), (3, "keep"), (4, "keep"), (5, "grow")]
)
def test_an_answer_is_counted_by_what_it_comes_to(needs: int | None, word: str) -> None:
    """Of a pod of four units that is to have two."""
    asked = ContractQuestion(uid="pod", number=1, port=PORT, size=UNIT.times(4), proposed=UNIT.times(2))
    said = None if needs is None else Amounts(0, UNIT.times(needs).memory_bytes)
    assert word_of(asked, ContractAnswered(uid="pod", number=1, needs=said)) == word

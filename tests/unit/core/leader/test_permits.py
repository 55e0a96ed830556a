"""Placements that plugins of the leader hold back, let go on or turn away before they are published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.unit.core.leader.told import (
    C1,
    EXECUTOR,
    NOBODY,
    SAMPLER,
    Told,
    candidates,
    connect,
    lead,
    placed,
    plan,
    running,
    submitted,
)

from argosy_core.framework import NotNow, PermitBatch
from argosy_core.job.states import JobStage
from argosy_core.leader import instructions as say
from argosy_core.leader.events import (
    Bound,
    Change,
    ChangesRead,
    ClusterSettings,
    PluginAnswered,
    Published,
    References,
    SamplerReady,
    StatesReported,
    Stored,
)
from argosy_core.placement import WaitReason
from argosy_core.scheduler import ChangeRequestColumns, check_invariants, count_waiting, explain


class Pair:
    """Lets jobs go two by two, and remembers what it was told to undo."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log
        self.waited: list[float] = []

    def permit(self, batch: PermitBatch) -> None:
        """Hold a single job back for ten seconds."""
        self.waited = batch.waited_s.tolist()
        if len(batch) < 2:
            batch.wait(0, "waits for its pair", timeout_s=10.0)

    def reject(self, batch: PermitBatch) -> None:
        """Note what is undone."""
        self.log += [f"pair undoes {handle}/{attempt}" for handle, attempt in zip(batch.handle, batch.attempt)]  # noqa: B905


def told_with(settings: dict[str, Any] | None = None, **plugins: object) -> Told:
    """Return a machine that leads with plugins, and one cluster."""
    told = lead(plugins=plugins, release_wait_s=0.0, **(settings or {}))
    connect(told)
    return told


def place(told: Told, change_id: int, *numbers: int) -> list[say.Instruction]:
    """Submit jobs and have the sampler place them; return what follows."""
    told.tell(submitted(change_id, *numbers))
    told.pass_time(told.settings.window_idle_s)
    return place_again(told)


def place_again(told: Told) -> list[say.Instruction]:
    """Answer a sample and a commit."""
    told.tell(candidates(told.one(say.SendSample)))
    return told.tell(placed(told.one(say.SendCommit)))


def store(told: Told) -> say.Store:
    """Commit what is to be stored."""
    found = told.one(say.Store)
    told.tell(Stored(number=found.number, refused=NOBODY))
    return found


def answer(told: Told, call: say.CallPlugin) -> list[say.Instruction]:
    """Have the pre-bind plugins answer."""
    return told.tell(PluginAnswered(number=call.number, verdicts=call.framework.pre_bind(call.batch)))


def leased(told: Told) -> list[int]:
    """Return the jobs that are to be published now."""
    return [handle for said in told.said if isinstance(said, say.Publish) for handle in said.plan.handle.tolist()]


def test_placement_that_waits_for_a_permit_is_held_over_rounds_and_published_with_what_it_waited_for() -> None:
    """It counts as usage and stands in every list of placements meanwhile; people read what it waits for."""
    pair = Pair()
    told = told_with(pair=pair)
    place(told, 5, 10)
    assert not leased(told)
    store(told)
    state = told.machine.state
    check_invariants(state)
    assert state.queues.usage.sum() == 1_000_000
    assert count_waiting(state)[WaitReason.PLUGIN] == 1
    found = explain(state, 10, told.moment.db_s)
    assert found is not None
    assert (found.stage, found.reason, found.objection) == (
        JobStage.IN_FLIGHT,
        WaitReason.PLUGIN,
        "pair: waits for its pair",
    )
    told.tell(Bound(session=SAMPLER._replace(serial=9), settings=C1))
    assert told.one(say.SendPlacements).placements.members.handle.tolist() == [10]
    assert not told.machine.is_at_rest
    told.tell(SamplerReady(session=SAMPLER._replace(serial=9)))
    told.pass_time(2.0)
    assert pair.waited == [pytest.approx(2.0, abs=0.2)], "it is asked again without news"
    place(told, 6, 11)
    assert leased(told) == [10, 11]
    told.tell(Published(position=2))
    store(told)
    assert sorted(told.one(say.SendRows).rows.handle.tolist()) == [10, 11]
    assert (pair.log, state.objections, count_waiting(state)[WaitReason.PLUGIN]) == ([], {}, 0)
    assert told.machine.is_at_rest
    told.pass_time(told.settings.contact_period_s)
    store(told)  # when the sampler was heard
    assert told.machine.due_s() is None


def test_placement_that_waits_too_long_is_undone_and_its_job_tried_again() -> None:
    """The plugin's time limit counts from the commit; the sampler is told, and people read why."""
    pair = Pair()
    told = told_with(pair=pair)
    place(told, 5, 10)
    store(told)
    told.pass_time(9.0)
    assert not pair.log
    told.pass_time(1.1)
    assert pair.log == ["pair undoes 10/1"]
    state = told.machine.state
    assert state.queues.usage.sum() == 0
    check_invariants(state)
    found = explain(state, 10, told.moment.db_s)
    assert found is not None
    assert (found.stage, found.reason) == (JobStage.QUEUED, WaitReason.PLUGIN)
    assert found.objection == "pair: waits for its pair; given up after 10 s"
    told.pass_time(0.0)
    assert told.one(say.SendReleases).runs.members.handle.tolist() == [10]
    told.pass_time(1.1)
    place_again(told)
    assert count_waiting(state)[WaitReason.PLUGIN] == 1


def test_longest_wait_is_bounded_by_the_setting() -> None:
    """Whatever a plugin asks for."""
    pair = Pair()
    told = told_with({"permit_timeout_max_s": 3.0}, pair=pair)
    place(told, 5, 10)
    store(told)
    told.pass_time(3.1)
    assert pair.log == ["pair undoes 10/1"]


def _deny_one(batch: PermitBatch) -> np.ndarray:
    return batch.handle != 10


def _deny_with_text(batch: PermitBatch) -> None:
    batch.wait(slice(None), "not yet", timeout_s=60.0)
    batch.deny(batch.handle == 10, "no", retry_after_s=7.0)


def _fail_on_one(batch: PermitBatch) -> None:
    batch.wait(slice(None), "said before it failed", timeout_s=60.0)
    if 10 in batch.handle:
        raise NotNow("no", retry_after_s=7.0)
    batch.verdicts.waits[:] = False


@pytest.mark.parametrize(
    ("permit", "text", "after_s", "others"),
    [
        (_deny_one, "gate: denied", 1.0, [11]),
        (_deny_with_text, "gate: no", 7.0, []),
        (_fail_on_one, "gate: no", 7.0, [11]),
    ],
    ids=["mask", "words", "error"],
)
def test_denied_placement_is_undone_in_reverse_order_and_tried_again_when_the_plugin_wants(
    permit: Callable[[PermitBatch], Any], text: str, after_s: float, others: list[int]
) -> None:
    """Denial counts more than waiting and than other plugins' permits; other jobs of the round are not touched."""
    log: list[str] = []
    gate = SimpleNamespace(permit=permit, reject=lambda batch: log.append(f"gate undoes {batch.handle.tolist()}"))
    told = told_with(pair=Pair(log), gate=gate)
    place(told, 5, 10, 11)
    assert leased(told) == others
    assert log == ["gate undoes [10]", "pair undoes 10/1"]
    assert told.machine.state.objections[10] == text
    if others:
        told.tell(Published(position=2))
    store(told)
    told.pass_time(after_s - 0.2)
    assert say.SendSample not in told.kinds()
    told.pass_time(0.3)
    assert told.one(say.SendSample)


class Bind:
    """A pre-bind plugin that refuses job 10 while it is told to."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.refuses = log, True

    def pre_bind(self, batch: PermitBatch) -> np.ndarray:
        """Prepare what the jobs need."""
        self.log.append(f"bind {batch.handle.tolist()} on {batch.cluster.tolist()} {batch.node.tolist()}")
        return ~((batch.handle == 10) & self.refuses)

    def reject(self, batch: PermitBatch) -> None:
        """Undo it."""
        self.log.append(f"bind undoes {batch.handle.tolist()}")


def test_pre_bind_is_called_off_the_machine_and_its_answer_moves_what_it_accepts() -> None:
    """Nothing is published before; what it refuses is undone and tried again, and rounds go on meanwhile."""
    log: list[str] = []
    told = told_with(bind=Bind(log), pair=Pair(log))
    place(told, 5, 10, 11)
    call, transaction = told.one(say.CallPlugin), store(told)
    assert (log, transaction.transaction.new_runs) == ([], None)
    place(told, 6, 12, 13)
    second = told.one(say.CallPlugin)
    store(told)
    assert answer(told, call)
    assert leased(told) == [11]
    assert log == ["bind [10, 11] on ['c1', 'c1'] ['n1', 'n1']", "pair undoes 10/1", "bind undoes [10]"]
    told.tell(Published(position=2))
    store(told)
    assert told.one(say.SendRows).rows.handle.tolist() == [11]
    answer(told, second)
    assert leased(told) == [12, 13]
    check_invariants(told.machine.state)


def test_pre_bind_that_does_not_answer_is_given_up_and_calls_under_way_are_bounded() -> None:
    """Late answers change nothing; until one comes no further call is begun beyond the bound, and nothing leaks."""
    log: list[str] = []
    told = told_with({"pre_bind_timeout_s": 5.0}, bind=Bind(log))
    calls = []
    for number in range(6):
        place(told, 5 + number, 20 + number)
        calls += [said for said in told.said if isinstance(said, say.CallPlugin)]
        store(told)
    assert len(calls) == 4
    state = told.machine.state
    assert state.queues.usage.sum() == 6_000_000
    told.pass_time(5.1)
    assert sorted(log) == ["bind undoes [20, 21, 22, 23, 24, 25]"]
    assert state.queues.usage.sum() == 0
    assert state.objections[20] == "pre-bind has not answered; given up after 5 s"
    answer(told, calls[0])
    assert not leased(told)
    check_invariants(state)


def test_job_that_is_cancelled_while_it_is_held_back_ends_and_is_undone() -> None:
    """It is not tried again, whether the API has ended its row or not."""
    for ended in (0, 1):
        pair = Pair()
        told = told_with(pair=pair)
        place(told, 5, 10)
        store(told)
        requests = ChangeRequestColumns(
            handle=np.array([10]),
            kind=np.ones(1, dtype=np.int8),
            priority=np.zeros(1, dtype=np.int32),
            ended=np.full(1, ended, dtype=np.int8),
            reason="",
        )
        told.tell(ChangesRead(changes=(Change(change_id=6, requests=requests),)))
        told.pass_time(1.0)
        assert pair.log == ["pair undoes 10/1"]
        assert told.one(say.Store).transaction.events
        told.pass_time(0.0)
        assert told.one(say.SendReleases).runs.members.handle.tolist() == [10]
        assert len(told.machine.state.live) == 0


def test_placement_on_a_cluster_that_was_declared_gone_is_undone() -> None:
    """It does not wait for its permit where nothing can run."""
    pair = Pair()
    told = told_with(pair=pair)
    place(told, 5, 10)
    store(told)
    gone = ClusterSettings(name="c1", forgotten=True)
    change = ChangesRead(changes=(Change(change_id=6, clusters=("c1",)),), references=References(clusters={"c1": gone}))
    told.tell(change)
    told.pass_time(1.0)
    assert pair.log == ["pair undoes 10/1"]


def test_lease_that_the_database_refuses_is_undone() -> None:
    """Whatever was prepared for it is given up; so it is if its job ends while the plan is published."""
    log: list[str] = []
    bind = Bind(log)
    bind.refuses = False
    told = told_with(bind=bind)
    place(told, 5, 10, 11)
    call = told.one(say.CallPlugin)
    store(told)
    answer(told, call)
    told.tell(Published(position=2))
    told.tell(Stored(number=told.one(say.Store).number, refused=np.array([10])))
    assert log[1:] == ["bind undoes [10]"]
    told.tell(StatesReported(session=EXECUTOR, batch=1, columns=running(11)))
    told.pass_time(1.0)
    assert log[1:] == ["bind undoes [10]"]


@pytest.mark.parametrize(("state", "told_of"), [(2, "made"), (3, "made"), (4, "made"), (5, "undone"), (7, "undone")])
def test_first_report_of_a_run_is_told_to_post_bind_or_to_reject(state: int, told_of: str) -> None:
    """Once, with its place; a report of another cluster or attempt is none."""
    log: list[tuple[str, list[int], list[str]]] = []
    plugin = SimpleNamespace(
        post_bind=lambda batch: log.append(("made", batch.handle.tolist(), batch.node.tolist())),
        reject=lambda batch: log.append(("undone", batch.handle.tolist(), batch.node.tolist())),
    )
    told = told_with(plugin=plugin)
    place(told, 5, 10, 11)
    told.tell(Published(position=2))
    store(told)
    reports = [
        running(10, attempt=2),
        *(replace(running(10), state=np.array([one], dtype=np.int8)) for one in (state, 4)),
    ]
    for number, columns in enumerate(reports):
        told.tell(StatesReported(session=EXECUTOR, batch=number, columns=columns))
        told.pass_time(1.0)
    assert log == [(told_of, [10], ["n1"])]


def test_without_such_plugins_nothing_is_held_and_no_column_is_made() -> None:
    """A plan goes on as it is: the very same object."""
    told = lead()
    connect(told)
    publish = plan(told, 5, 10)
    permits = told.machine._cycle.permits
    assert permits.admit(publish.plan, told.machine._cycle._transaction) is publish.plan
    assert permits._held is None

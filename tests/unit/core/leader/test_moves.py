"""Pods that samplers name because their nodes are too full: their runs are preempted; and what queues weigh."""

from __future__ import annotations

from dataclasses import replace

from argosy_core.job.reading.permit_rules import PermitRules
from argosy_core.job.tables.members import Members
from argosy_core.leader import events as hear
from argosy_core.leader import instructions as say
from argosy_simulation.changes import read_changes
from argosy_testkit.leader_world import LeaderWorld


def test_a_run_that_its_sampler_names_is_stopped_with_the_reason() -> None:
    """Once; what is named late, of another attempt or by the sampler of another cluster is left alone."""
    world = LeaderWorld(clusters={"a": 2, "b": 2})
    named, _ = world.submit(2)
    world.round()
    cluster, _ = world.place(named)
    sampler = world.clusters[cluster].sampler
    elsewhere = world.clusters["b" if cluster == "a" else "a"].sampler
    for session, handle, attempt in [(elsewhere, named, 1), (sampler, named, 2), (sampler, 10**9, 1)]:
        world.tell(hear.MovesNamed(session=session, members=Members.of([handle], [attempt])))
    assert world.state.room.preempted == {}
    for _ in range(2):
        world.tell(hear.MovesNamed(session=sampler, members=Members.of([named], [1])))
        world.round()
    assert world.state.room.preempted == {named: "its node is too full, and it may be moved"}
    assert [handle for _, handle, _ in world.sent(say.SendStops)] == [named]


def test_samplers_are_told_what_queues_weigh_and_how_permits_are_given() -> None:
    """With their welcome, and when settings change; queues of no weight are left out."""
    world = LeaderWorld(clusters={"a": 1})
    told = [one for one in world.said if isinstance(one, say.SendWeights)]
    assert told[-1].weights == dict.fromkeys(world.state.queues.names.values(), 1.0)
    assert told[-1].rules == PermitRules()
    rules = PermitRules(watermark=0.8)
    changed = hear.ChangedSettings(version=1, round=replace(world.settings.round, permits=rules))
    world.store.change_request(world.submit(1))  # a change for settings to come with
    news = read_changes(world.store, world.job_index, world.machine)
    world.tell(replace(news, references=replace(news.references, settings=changed)))
    world.round()
    told = [one for one in world.said if isinstance(one, say.SendWeights)]
    assert told[-1].rules == rules

"""Agents in simulated worlds: pods are resized by what they use, nodes hold what is on them, and all comes to rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.scaling import SCALED
from argosy_core.nodes import NodeSpec
from argosy_simulation import START_US, ScalingPlan, World, WorldPlan, WorldSettings

GIB = 1 << 30
STEP_S = 300.0
NODE = {"cpu": 32_000, "memory": 64 * GIB}
DAY = 24
"""Steps for which a pod runs."""
BUSY = np.concatenate([np.full(DAY // 2, 0.1), np.full(DAY // 2, 0.55)])
"""A machine that is idle and then is not."""


def make_world(uses: np.ndarray | None, *, jobs: int = 24, seed: int = 1, **plan: Any) -> World:
    """Two nodes for four pods each, all jobs at once, a pod of 8 cores each that runs for two hours."""
    nothing = np.zeros(jobs, np.int32)
    fields: dict[str, Any] = {
        "clusters": (("a", tuple(NodeSpec(name=f"n{number}", total=NODE) for number in range(2))),),
        "queues": (("q", 1.0),),
        "classes": (SchedulingClass(requests=(("cpu", 8000), ("memory", 16 * GIB))),),
        "job_sets": ((0, "s"),),
        "submit_s": np.zeros(jobs),
        "run_s": np.full(jobs, DAY * STEP_S),
        **dict.fromkeys(("class_index", "job_set", "priority", "exit_code", "layout"), nothing),
        "scaling": None if uses is None else ScalingPlan(uses=uses, step_s=STEP_S),
    }
    return World(WorldPlan(**fields | plan), seed=seed, settings=WorldSettings.for_traces())


def last_end_s(world: World) -> float:
    """Play a world; return when its last job ended."""
    return (int(world.run().times.finished_us.max()) - START_US) / 1e6


def watch_nodes(world: World) -> list[int]:
    """Look at all nodes every so often; return what the fullest one had left, millicores."""
    left: list[int] = []

    def look(there: World) -> None:
        cluster = there.clusters[0]
        on_node: dict[str, int] = {}
        for pod in cluster.running_pods():
            node = cluster.objects[pod.key].node
            on_node[node] = on_node.get(node, 0) + dict(pod.requests)["cpu"]
        left.append(NODE["cpu"] - max(on_node.values(), default=0))

    world.run(tell=look, tell_steps=1)
    return left


def test_pods_shrink_to_what_they_use_so_that_others_start_sooner() -> None:
    """The same jobs end sooner; without agents no pod is resized."""
    whole = make_world(None)
    assert last_end_s(whole) > 3 * DAY * STEP_S
    world = make_world(np.tile(BUSY, (3, 1)))
    assert last_end_s(world) < 2.5 * DAY * STEP_S
    (agent,) = world.agents
    assert sum(moment.resizes for moment in agent.moments) > 24
    assert all(moment.used <= moment.held <= moment.approved for moment in agent.moments)
    assert max(moment.pods for moment in agent.moments) > 8, "more than would fit by what they asked for"
    assert len(whole.agents) == 0


def test_no_node_is_ever_above_what_it_has_however_pods_grow() -> None:
    """All pods want all at the same time, after they were small."""
    sudden = np.concatenate([np.full(DAY // 2, 0.05), np.full(DAY // 2, 1.0)])
    world = make_world(sudden[np.newaxis])
    left = watch_nodes(world)
    assert min(left) == 0, "they fill the nodes"
    moments = world.agents[0].moments
    assert any(moment.requested > moment.approved for moment in moments), "some wait for room"
    assert any(moment.short for moment in moments)


def test_a_node_takes_no_size_for_which_it_has_no_room() -> None:
    """Whatever permits say; nor one for a version that is over."""
    world = make_world(np.full((1, DAY), 1.0))
    refused: list[str] = []

    def grow(there: World) -> None:
        for pod in there.clusters[0].running_pods()[:1]:
            assert there.clusters[0].resize(pod.key, pod.version + 1, {"cpu": 1000}) == 0
            with pytest.raises(InvalidRequest, match="no room") as error:
                there.clusters[0].resize(pod.key, pod.version, {"cpu": NODE["cpu"] + 1})
            refused.append(error.value.message)

    world.run(tell=grow, tell_steps=50)
    assert refused


def test_equal_plans_and_seeds_give_equal_worlds_and_sizes() -> None:
    """What pods use comes from the plan alone."""
    uses = np.random.default_rng(5).uniform(0, 1, (5, DAY))
    one, two = make_world(uses), make_world(uses)
    assert one.run().fingerprint == two.run().fingerprint
    assert one.agents[0].moments == two.agents[0].moments
    assert one.agents[0].pods == two.agents[0].pods


def test_a_sampler_that_starts_anew_finds_the_sizes_and_its_agent_goes_on() -> None:
    """Its agent announces all pods in a session with the next one."""
    world = make_world(np.tile(BUSY, (3, 1)))
    world.context.agenda.after(DAY * STEP_S / 3, world.agents[0], lambda: world.restart_sampler(0))
    left = watch_nodes(world)
    assert min(left) >= 0
    later = [moment for moment in world.agents[0].moments if moment.at_s > DAY * STEP_S / 2]
    assert sum(moment.resizes for moment in later) > 0


@pytest.mark.parametrize("takes_over", [False, True])
def test_what_pods_may_have_counts_as_what_their_jobs_hold_by_the_leaders_account(*, takes_over: bool) -> None:
    """Also by that of a leader that comes later; without agents it is what they ask for."""
    world = make_world(np.tile(BUSY, (3, 1)), jobs=8)
    told: list[tuple[int, int]] = []

    def look() -> None:
        cpu = SCALED.index("cpu")
        state, (sampler,) = world.leaders[-1].state, (one for one in world.samplers if one.alive)
        pods = sampler.ledger.permits.pods
        rows = pods.live()
        held = int(np.maximum(pods.permit[cpu, rows], pods.observed[cpu, rows]).sum())
        counted = state.job_vectors(np.flatnonzero(state.live.run_state > 0).astype(np.int32))
        told.append((held, int(counted[:, state.classes.axis.index("cpu")].sum())))

    for step in range(1, DAY):
        world.context.agenda.after(step * STEP_S + STEP_S / 2, world.agents[0], look)
    if takes_over:
        world.context.agenda.after(DAY * STEP_S / 3 + 1, world.agents[0], world.elect)
    world.run()
    assert [counted for _, counted in told] == [held for held, _ in told]
    assert min(told)[0] < 20_000, "they shrink"
    assert max(told)[0] > 32_000, "they grow"


def test_a_pod_of_a_run_of_several_keeps_its_size() -> None:
    """Nobody could tell whose permit it is."""
    world = make_world(np.tile(BUSY, (3, 1)), layout=np.full(24, 2, np.int32))
    world.run()
    assert world.agents[0].moments == []


@pytest.mark.parametrize(
    ("uses", "step_s", "units"),
    [
        (np.zeros((0, 3)), 1.0, 8),
        (np.zeros(3), 1.0, 8),
        (np.full((1, 2), 1.5), 1.0, 8),
        (np.full((1, 2), np.nan), 1.0, 8),
        (np.zeros((1, 2)), 0.0, 8),
        (np.zeros((1, 2)), 1.0, 0),
    ],
)
def test_uses_that_are_none_are_refused(uses: np.ndarray, step_s: float, units: int) -> None:
    """Before the world begins."""
    with pytest.raises(InvalidRequest, match="what pods use"):
        ScalingPlan(uses=uses, step_s=step_s, units=units)

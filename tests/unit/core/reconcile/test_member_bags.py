"""What the reconcile step does with the members of distributed jobs: whose bag each makes, and in which order."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy_core.job.reading.pod_groups import PodGroup, build_body, member_bags
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members, member_key, number_of, ordinal_of
from argosy_core.reconcile import Reconciler, RunRows, StartTimeouts
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity
from argosy_testkit.reconcile_world import World, rows_of

POD = {
    "kind": "Pod",
    "spec": {
        "initContainers": [{"name": "first"}],
        "containers": [{"name": "main", "env": [{"name": "URL", "value": "tcp://$(ARGOSY_PEERS)"}]}],
    },
}
GROUPS = (
    PodGroup(name="head", minimum=1, maximum=1, template=json.dumps(POD)),
    PodGroup(name="work", minimum=2, maximum=3, template=json.dumps(POD), after="head"),
)
BODY = build_body([], GROUPS, namespace="default")
SERVICE_AT, POD_AT = 0, 1


def rows(*members: int, handle: int = 7, attempt: int = 1, seen: bool = False) -> RunRows:
    """Return rows of members of one run of the job."""
    ordinals = np.array([ordinal_of(attempt, member) for member in members], dtype=np.int64)
    return replace(
        rows_of([handle] * len(members), seen=seen),
        ordinal_column=ordinals,
        bodies=(b'[{"kind":"Pod"}]', BODY),
        spec_column=np.ones(len(members), dtype=np.int32),
    )


def made(world: World) -> list[tuple[int, int]]:
    """Act once; return (member, position) of what is created."""
    creates = world.act().creates
    if creates is None:
        return []
    return list(zip((creates.ordinal_column >> 32).tolist(), creates.object_column.tolist(), strict=True))


def show(world: World, member: int, state: ObjectState) -> None:
    """Let a member's pod show a state, and be seen."""
    world.cluster.show((*member_key(7, 1, member), POD_AT), state)
    world.watch()


def test_pods_of_a_group_are_made_once_those_it_waits_for_are_ready(world: World) -> None:
    """Services come at once, the coordinator's pod next; the others' when it runs and not when it only exists."""
    world.reconciler.take_rows(rows(0, 1, 2), world.now)
    assert made(world) == [(0, SERVICE_AT), (1, SERVICE_AT), (2, SERVICE_AT)]
    assert made(world) == [(0, POD_AT)]
    assert [made(world) for _ in range(3)] == [[], [], []]
    show(world, 0, ObjectState.RUNNING)
    assert made(world) == [(1, POD_AT), (2, POD_AT)]
    assert made(world) == []


@pytest.mark.parametrize("state", [ObjectState.RUNNING, ObjectState.SUCCEEDED])
def test_member_that_comes_later_finds_its_turn(world: World, state: ObjectState) -> None:
    """A member whose row comes when the coordinator is ready, or done, waits for nobody."""
    world.reconciler.take_rows(rows(0), world.now)
    world.settle()
    show(world, 0, state)
    world.reconciler.take_rows(rows(3), world.now)
    world.settle()
    assert (*member_key(7, 1, 3), POD_AT) in world.cluster.objects


def test_successor_keeps_the_start_order(world: World) -> None:
    """An executor that starts anew sees the coordinator's pod and holds the others back as its predecessor did."""
    world.reconciler.take_rows(rows(0, 1, 2), world.now)
    world.settle()
    assert sum(key[2] == POD_AT for key in world.cluster.objects) == 1
    world.reconciler = Reconciler()
    world.list_all()
    world.reconciler.take_rows(rows(0, 1, 2, seen=False), world.now)
    world.settle()
    assert sum(key[2] == POD_AT for key in world.cluster.objects) == 1
    show(world, 0, ObjectState.RUNNING)
    world.settle()
    assert sum(key[2] == POD_AT for key in world.cluster.objects) == 3


def test_replacement_has_the_service_once_the_one_before_has_left_it(world: World) -> None:
    """Two objects of one name cannot be; its pod comes last, and those that waited for that place see it ready."""
    world.reconciler.take_rows(rows(0, 1, 2), world.now)
    world.settle()
    show(world, 0, ObjectState.RUNNING)
    world.settle()
    other = number_of(1, 1)
    world.reconciler.take_rows(rows(other), world.now)
    assert made(world) == []
    world.settle()
    keys = {(ordinal >> 32, position) for _, ordinal, position in world.cluster.objects}
    assert {(0, POD_AT), (2, POD_AT), (other, SERVICE_AT), (other, POD_AT)} <= keys
    assert not {(1, SERVICE_AT), (1, POD_AT)} & keys


def test_replacement_is_told_that_it_is_the_one_before() -> None:
    """It has that one's number, host name and service; its pod has a name of its own."""
    bag = BagTemplate(member_bags(BODY).bodies[1])
    first, other = (
        [
            bag.render(
                index,
                RunIdentity(
                    installation="i", handle=7, ordinal=ordinal_of(1, number), id_high=1, queue="q", job_set="s"
                ),
            )
            for index in (SERVICE_AT, POD_AT)
        ]
        for number in (1, number_of(1, 3))
    )
    assert first[0]["metadata"]["name"] == other[0]["metadata"]["name"] == other[1]["spec"]["hostname"]
    assert first[1]["metadata"]["name"] != other[1]["metadata"]["name"]
    assert environment(first[1]) == environment(other[1])
    assert other[0]["spec"]["selector"] != first[0]["spec"]["selector"]


def test_stopped_run_makes_no_pod_that_was_held_back(world: World) -> None:
    """A pod that waits for its turn ends with its run; nothing is made of it when the turn would have come."""
    world.reconciler.take_rows(rows(0, 1), world.now)
    world.settle()
    world.reconciler.take_stops(Members.of([7, 7], [1, 1], np.array([0, 1])))
    world.settle()
    assert not world.cluster.objects
    assert [key for key in world.cluster.created_pods if key[1] >> 32] == []
    assert {ObjectState(state) for state in world.reports[-1].state_column.tolist()} == {ObjectState.CANCELLED}


def test_coordinator_that_is_never_ready_fails_its_run_at_the_time_out() -> None:
    """Nobody waits for ever: the pod is given up with a reason, and with it the run."""
    world = World(reconciler=Reconciler(timeouts=StartTimeouts(pending_s=100.0)))
    world.list_all()
    world.reconciler.take_rows(rows(0, 1, 2), world.now)
    world.settle()
    world.pass_time(110.0)
    world.settle()
    assert world.reports[-1].texts == ("the pod did not start for 100 s: nobody says why",)
    ended = {key for key in world.cluster.objects if key[1] == ordinal_of(1, 0)}
    assert not ended


def environment(pod: dict[str, Any], container: str = "containers") -> dict[str, str]:
    """Return the variables of a pod's first container."""
    return {one["name"]: one["value"] for one in pod["spec"][container][0]["env"]}


def test_members_are_told_who_they_are_and_where_their_peers_are() -> None:
    """Addresses are the names of the members' services, in the order of their numbers, equal for all members."""
    run = RunIdentity(installation="i", handle=7, ordinal=ordinal_of(3, 1), id_high=1, queue="q", job_set="s")
    template = BagTemplate(member_bags(BODY).bodies[1])
    service, pod = template.render(SERVICE_AT, run), template.render(POD_AT, run)
    told = environment(pod)
    peers = told["ARGOSY_PEERS"].split(",")
    assert (told["ARGOSY_GROUP"], told["ARGOSY_MEMBER"], told["ARGOSY_MEMBER_COUNT"]) == ("work", "1", "3")
    assert peers == ["member-aaaaaaaaaah-3", "member-aaaaaaaaaah-3-1", "member-aaaaaaaaaah-3-2"]
    assert environment(pod, "initContainers") == {name: told[name] for name in told if name != "URL"}
    assert list(told)[-1] == "URL", "what the user sets comes later, and may be made of ours"
    assert service["metadata"]["name"] == pod["spec"]["hostname"] == peers[1]
    labels = pod["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert (labels["argosy.dev/group"], "argosy.dev/awaited" in labels) == ("work", False)
    assert not any("member" in key or "pod-group" in key for key in pod["metadata"]["annotations"])
    head = BagTemplate(member_bags(BODY).bodies[0]).render(POD_AT, replace(run, ordinal=3))
    assert environment(head)["ARGOSY_PEERS"] == told["ARGOSY_PEERS"]
    assert head["metadata"]["labels"]["argosy.dev/awaited"] == "true"


def test_member_beyond_the_minimum_is_told_of_those_that_began() -> None:
    """Extras come and go, so nobody is told where they are; they find the others."""
    run = RunIdentity(installation="i", handle=7, ordinal=ordinal_of(1, 3), id_high=1, queue="q", job_set="s")
    told = environment(BagTemplate(member_bags(BODY).bodies[1]).render(POD_AT, run))
    assert (told["ARGOSY_MEMBER"], told["ARGOSY_MEMBER_COUNT"]) == ("3", "3")
    assert len(told["ARGOSY_PEERS"].split(",")) == 3

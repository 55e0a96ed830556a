"""The body of a distributed job, and the bags that its members make of it."""

from __future__ import annotations

import json

from argosy_core.job.reading.pod_groups import PodGroup, build_body, is_of_groups, member_bags, read_groups, read_sheet

POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"main"}]}}'
CONFIG = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}'


def group(name: str, minimum: int, maximum: int, **rest: object) -> PodGroup:
    """Return a group of plain pods."""
    return PodGroup(name=name, minimum=minimum, maximum=maximum, template=POD.decode(), **rest)  # type: ignore[arg-type]


GROUPS = (group("head", 1, 1), group("work", 2, 4, after="head", max_hops=2, whole_nodes=False), group("side", 1, 2))


def test_groups_are_read_back_as_they_were_given() -> None:
    """What is stored says all that was submitted, but the names of pods, which are the same for all members."""
    body = build_body([CONFIG], GROUPS, namespace="default")
    assert is_of_groups(body)
    assert not is_of_groups(b"[" + POD + b"]")
    others, groups = read_groups(body)
    assert others == [json.loads(CONFIG)]
    assert [(one.name, one.minimum, one.maximum, one.max_hops, one.whole_nodes, one.after) for one in groups] == [
        ("head", 1, 1, -1, True, ""),
        ("work", 2, 4, 2, False, "head"),
        ("side", 1, 2, -1, True, ""),
    ]
    assert json.loads(groups[0].template)["metadata"] == {"labels": {"a": "b"}, "name": "member", "annotations": {}}


def test_members_are_numbered_minima_first() -> None:
    """The minimum of each group in order, then what each has beyond it; so a growing group renumbers nobody."""
    bags = member_bags(build_body([], GROUPS, namespace="default"))
    assert bags.group_of == (0, 1, 1, 2, 1, 1, 2)


def test_each_member_has_a_bag_of_one_layout() -> None:
    """What stands beside the pods, the member's service and the pod of its group, whichever group that is."""
    bags = member_bags(build_body([CONFIG], GROUPS, namespace="there"))
    kinds = [[manifest["kind"] for manifest in json.loads(body)] for body in bags.bodies]
    assert kinds == [["ConfigMap", "Service", "Pod"]] * 3
    service = json.loads(bags.bodies[1])[1]
    assert service["metadata"]["namespace"] == "there"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"argosy.dev/group": "work"},
    }


def test_sheet_says_whom_a_member_waits_for() -> None:
    """A group waits for the minimum of another, by the numbers of its members; those are marked as awaited."""
    head, work, side = (read_sheet(body) for body in member_bags(build_body([], GROUPS, namespace="x")).bodies)
    assert head is not None
    assert work is not None
    assert side is not None
    assert (head.group, head.count, head.after, head.is_awaited) == ("head", 4, (0, 0), True)
    assert (work.group, work.after, work.is_awaited) == ("work", (0, 1), False)
    assert side.after == (0, 0)
    assert read_sheet(b"[" + POD + b"]") is None

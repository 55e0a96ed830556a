"""Reading specs of distributed jobs: their class, layout and body, and everything that is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from argosy_core.job.reading.group_spec import group_hash, read_group_bag
from argosy_core.job.reading.options import UNSET
from argosy_core.job.reading.pod_groups import PodGroup, member_bags, read_groups
from argosy_core.job.reading.spec import Bag, SpecLimits, spec_hash
from argosy_core.reconcile.intake import kinds_of_body

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}


def pod(cpu: str = "1", metadata: dict[str, Any] | None = None, **spec: Any) -> str:
    """Return a pod's text."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata or {}, "spec": {"containers": [container], **spec}}
    )


def group(name: str = "work", minimum: int = 2, maximum: int = 0, template: str = "", **rest: Any) -> PodGroup:
    """Return a group."""
    return PodGroup(name=name, minimum=minimum, maximum=maximum or minimum, template=template or pod(), **rest)


def read(*groups: PodGroup, beside: tuple[dict[str, Any], ...] = ()) -> Bag:
    """Read a job."""
    return read_group_bag([json.dumps(one).encode() for one in beside], groups, SpecLimits())


def faults(bag: Bag) -> dict[str, str]:
    """Return the violations by path."""
    return {violation.field: violation.description for violation in bag.violations}


def test_class_has_each_group_with_what_its_own_pod_needs() -> None:
    """A group's pods ask for what its template does; the job asks for all its minima together."""
    bag = read(
        group("head", 1, template=pod("500m", nodeSelector={"a": "b"})),
        group("work", 2, 4, after="head", max_hops=2, whole_nodes=False),
    )
    assert not bag.violations
    head, work = bag.scheduling_class.gang
    assert (head.name, head.minimum, head.maximum, head.max_hops, head.whole_nodes) == ("head", 1, 1, -1, True)
    assert (work.name, work.minimum, work.maximum, work.max_hops, work.whole_nodes) == ("work", 2, 4, 2, False)
    assert head.pod.node_selector == (("a", "b"),)
    assert work.pod.node_selector == ()
    assert dict(bag.scheduling_class.requests)["cpu"] == 2500
    assert bag.class_definition == bag.scheduling_class.definition()


def test_layout_and_body_are_those_of_every_member() -> None:
    """Whatever stands beside the pods, the member's service, its pod: positions mean the same in layout and bags."""
    bag = read(group("a", 1), group("b", 1), beside=(CONFIG,))
    assert bag.layout == (("ConfigMap", "settings"), ("Service", "member"), ("Pod", "member"))
    for body in member_bags(bag.body).bodies:
        assert kinds_of_body(body) == tuple(kind for kind, _ in bag.layout)
    assert read_groups(bag.body)[0] == [CONFIG]
    assert bag.namespaces == ("default",)


def test_specs_differ_where_their_groups_do() -> None:
    """The name of a spec covers all that is said of groups, and no plain spec has it."""
    base = group()
    others = [
        replace(base, **change)
        for change in (
            {"name": "x"}, {"minimum": 1}, {"maximum": 3}, {"template": pod("2")}, {"max_hops": 0},
            {"whole_nodes": False}, {"after": "y"},
        )
    ]  # fmt: skip
    hashes = {group_hash([], [one]) for one in (base, *others)} | {group_hash([], [base, base]), spec_hash([])}
    assert len(hashes) == len(others) + 3
    assert read(base).hash == group_hash([], [base])


@pytest.mark.parametrize(
    ("groups", "path", "text"),
    [
        pytest.param([group("Head")], "groups[0].name", "DNS label", id="name"),
        pytest.param([group("a" * 41)], "groups[0].name", "at most 40", id="long-name"),
        pytest.param([group("a"), group("a")], "groups[1].name", "another group is called 'a'", id="same-name"),
        pytest.param(
            [group(minimum=3, maximum=2)], "groups[0].min", "max is 2; give 1 <= min <= max", id="min-above-max"
        ),
        pytest.param([group("head"), group(after="haed")], "groups[1].after", "did you mean head?", id="typo"),
        pytest.param([group("a", after="b"), group("b")], "groups[0].after", "stands before it", id="after-a-later"),
        pytest.param([group("a", after="a")], "groups[0].after", "stands before it", id="after-itself"),
        pytest.param([group("a", 600), group("b", 500)], "groups", "have 1100 pods", id="too-many-pods"),
        pytest.param([group(f"g{n}", 1) for n in range(17)], "groups", "are 17, at most 16", id="too-many-groups"),
        pytest.param(
            [group("a"), group("b", template=pod(metadata={"namespace": "x"}))],
            "groups",
            "meet in one",
            id="namespaces",
        ),
        pytest.param([group(template="{")], "groups[0].template", "", id="no-json"),
        pytest.param([group(template="[1]")], "groups[0].template", "", id="no-object"),
        pytest.param([group(template='{"a":1,"a":2}')], "groups[0].template", "stands twice", id="key-twice"),
        pytest.param([group(template=json.dumps(CONFIG))], "groups[0].template.kind", "must be Pod", id="no-pod"),
        pytest.param(
            [group(template=pod(hostname="me"))], "groups[0].template.spec.hostname", "must not be set", id="hostname"
        ),
        pytest.param(
            [group("a"), group("b", template=pod(hostNetwork=True))],
            "groups[1].template.spec.hostNetwork",
            "",
            id="policy-of-pods",
        ),
    ],
)
def test_group_that_cannot_be_is_refused_with_its_place(groups: list[PodGroup], path: str, text: str) -> None:
    """Every fault is told with the path that the user wrote, and what would be right."""
    found = faults(read(*groups))
    assert path in found, found
    assert text in found[path]


def test_pods_and_the_service_of_members_are_not_given_beside_the_groups() -> None:
    """A Pod belongs into a group, and the name of members' services is taken."""
    assert "group of its own" in faults(read(group(), beside=(json.loads(pod()),)))["manifests"]
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "member"},
        "spec": {"ports": [{"port": 1}]},
    }
    assert "rename it" in faults(read(group(), beside=(service,)))["manifests"]


def test_fault_beside_the_groups_is_told_once() -> None:
    """What is wrong with an object that all members have is one fault, not one for each group."""
    bag = read(group("a"), group("b"), beside=({**CONFIG, "data": {"a": 1}},))
    assert [violation.field for violation in bag.violations] == ["manifests[0].data.a"]


@pytest.mark.parametrize(("deadlines", "expected"), [((10, 20), 20), ((10, None), UNSET)])
def test_job_ends_by_its_pods_deadlines_only_if_all_have_one(deadlines: tuple[int | None, ...], expected: int) -> None:
    """A time limit follows from the longest deadline, if no group is without."""
    groups = [group(f"g{at}", template=pod(activeDeadlineSeconds=deadline)) for at, deadline in enumerate(deadlines)]
    assert read(*groups).deadline_s == expected

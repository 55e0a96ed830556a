"""Tests of admission: from a submit to columns, or to one error with every fault."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from argosy.api.v1 import job_pb2
from argosy_core.errors import AlreadyExists, ArgosyError, InvalidRequest, NotFound, NotPermitted
from argosy_core.job.reading.spec import SpecLimits
from argosy_runtime.validation import violations_of
from argosy_server.api.codecs.names import NamespaceRules, is_name, is_queue_name, metadata_faults
from argosy_server.api.submits.admission import AdmittedJobs, KnownQueue, admit
from argosy_server.api.submits.specs import ReadSpec, SpecCache
from argosy_server.api.submits.submit_items import keeps_rules, read_items


def make_manifest(number: int = 0, namespace: str = "") -> bytes:
    """Return a pod as JSON; numbers make different ones."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "busybox", "args": [str(number)], "resources": resources}
    metadata = {"namespace": namespace} if namespace else {}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    return json.dumps(pod).encode()


def make_specs(*namespaces: str) -> list[ReadSpec]:
    """Return read specs, one for each namespace."""
    cache = SpecCache(SpecLimits(), max_count=100)
    return [cache.read([make_manifest(number, namespace)]) for number, namespace in enumerate(namespaces or ("",))]


QUEUES = {
    name: KnownQueue(
        queue_id=number,
        name=name,
        pool="far" if name == "far" else "default",
        namespaces=KnownQueue.allowed_namespaces(name, ()),
        max_queued_count=100,
    )
    for number, name in enumerate(("red", "blue", "far"), 1)
}


def admit_items(*items: dict[str, Any], specs: list[ReadSpec] | None = None, limit: int = 1000) -> AdmittedJobs:
    """Admit items with the defaults queue red and job set one."""
    messages = [job_pb2.JobItem(**{"queue": "red", "job_set": "one", **item}) for item in items]
    return admit(read_items(messages), QUEUES, specs or make_specs(), max_job_count=limit)


def test_admit_gives_one_row_per_job_with_counts_expanded() -> None:
    """An item of count n stands for n neighbouring rows; names become indices."""
    jobs = admit_items(
        {"count": 2, "priority": 4, "labels": {"a": "b"}, "client_id": "x"},
        {"queue": "blue", "spec": 1},
        {"job_set": "two", "labels": {"a": "b"}},
        specs=make_specs("", "default"),
    )
    assert jobs.count == 4
    assert jobs.queue_ids.tolist() == [1, 1, 2, 1]
    assert [jobs.job_sets[place] for place in jobs.job_set_index] == [(1, "one"), (1, "one"), (2, "one"), (1, "two")]
    assert jobs.priorities.tolist() == [4, 4, 0, 0]
    assert jobs.spec_index.tolist() == [0, 0, 1, 0]
    assert jobs.metadata_index.tolist() == [0, 0, -1, 0]
    assert jobs.metadata == (b'{"annotations":{},"labels":{"a":"b"}}',)
    assert jobs.client_ids == ("x", "x~1", None, None)
    assert jobs.items.tolist() == [0, 0, 1, 2]


def test_labels_of_pods_are_labels_of_their_jobs_and_change_no_payload() -> None:
    """Jobs are found by what their pods are called; the item's own value wins, and a repeat stays a repeat."""
    document = json.loads(make_manifest(0, ""))
    document["metadata"]["labels"] = {"app": "tides", "team": "a"}
    spec = SpecCache(SpecLimits(), max_count=1).read([json.dumps(document).encode()])
    without = replace(spec, pod_labels=())
    items = ({"client_id": "x", "labels": {"team": "b"}}, {"client_id": "y"})
    jobs = admit_items(*items, specs=[spec])
    assert [json.loads(jobs.metadata[place])["labels"] for place in jobs.metadata_index] == [
        {"app": "tides", "team": "b"},
        {"app": "tides", "team": "a"},
    ]
    assert jobs.payload_hashes == admit_items(*items, specs=[without]).payload_hashes


def test_admit_keeps_client_ids_empty_when_nobody_gave_one() -> None:
    """Without client ids there is nothing to hash."""
    jobs = admit_items({}, {"count": 3})
    assert (jobs.client_ids, jobs.payload_hashes) == ((), b"")


@pytest.mark.parametrize(
    "change",
    [{"priority": 1}, {"job_set": "two"}, {"spec": 1}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}],
    ids=lambda change: next(iter(change)),
)
def test_admit_hashes_all_that_makes_a_job_another(change: dict[str, Any]) -> None:
    """A repeat must have equal spec, job set, priority and metadata; anything else under its id is refused."""
    specs = make_specs("", "default")
    with pytest.raises(AlreadyExists) as caught:
        admit_items({"client_id": "x"}, {"client_id": "x", **change}, specs=specs)
    assert caught.value.violations[0].field == "items[1].client_id"
    assert admit_items({"client_id": "x", **change}, {"client_id": "x", **change}, specs=specs).count == 2


def test_admit_compares_client_ids_within_their_queue_and_with_copies() -> None:
    """The same id in two queues is two jobs; a copy's name never clashes with another item's, for whatever id."""
    assert admit_items({"client_id": "x"}, {"client_id": "x", "queue": "blue", "priority": 1}).count == 2
    assert admit_items({"client_id": "x", "count": 3}, {"client_id": "x/2", "priority": 1}).count == 4
    with pytest.raises(InvalidRequest) as caught:
        admit_items({"client_id": "x~2"})
    assert [violation.field for violation in caught.value.violations] == ["items[0].client_id"]


@pytest.mark.parametrize(
    ("items", "error", "fields"),
    [
        ([{"spec": 7}], InvalidRequest, ["items[0].spec"]),
        ([{"queue": "green"}, {}], NotFound, ["items[0].queue"]),
        ([{"queue": "GREEN"}], InvalidRequest, ["items[0].queue"]),
        ([{"queue": "green"}, {"job_set": "a b"}], InvalidRequest, ["items[1].job_set", "items[0].queue"]),
        ([{"count": 1001}], InvalidRequest, ["items"]),
        ([{}, {"queue": "far"}], InvalidRequest, ["items[1].queue"]),
        (
            [{"labels": {"x y": ""}}, {"labels": {"x y": ""}}],
            InvalidRequest,
            ["items[0].labels['x y']", "items[1].labels['x y']"],
        ),
    ],
    ids=["spec", "unknown queue", "queue name", "worst kind decides", "too many", "two pools", "labels"],
)
def test_admit_lists_faults_with_paths(
    items: list[dict[str, Any]], error: type[ArgosyError], fields: list[str]
) -> None:
    """The error is the gravest kind that occurs and carries every fault."""
    with pytest.raises(error) as caught:
        admit_items(*items)
    assert [violation.field for violation in caught.value.violations] == fields


def test_admit_names_spec_faults_under_their_spec() -> None:
    """What is wrong with a manifest stands under the spec that holds it."""
    broken = SpecCache(SpecLimits(), max_count=1).read([b"{"])
    with pytest.raises(InvalidRequest) as caught:
        admit_items({}, specs=[*make_specs(), broken])
    assert caught.value.violations[0].field == "specs[1].manifests[0]"


def test_admit_refuses_a_declared_reference_that_names_nothing_with_its_place() -> None:
    """The error says manifest, path and value; nothing of it reaches a cluster."""
    document = json.loads(make_manifest(5))
    document["metadata"]["annotations"] = {"argosy.dev/references": '["/spec/containers/0/args/0"]'}
    broken = SpecCache(SpecLimits(), max_count=1).read([json.dumps(document).encode()])
    with pytest.raises(InvalidRequest) as caught:
        admit_items({}, specs=[broken])
    (violation,) = caught.value.violations
    assert violation.field == "specs[0].manifests[0].metadata.annotations.argosy.dev/references"
    assert "/spec/containers/0/args/0 holds '5', which no object of the job is called" in violation.description


@pytest.mark.parametrize(
    ("namespace", "queue", "is_allowed"),
    [("", "red", True), ("red", "red", True), ("red", "blue", False), ("kube-system", "red", False)],
)
def test_admit_lets_queue_use_its_own_namespace_and_default(*, namespace: str, queue: str, is_allowed: bool) -> None:
    """A queue without a list may use the namespace of its name and `default`."""
    if is_allowed:
        assert admit_items({"queue": queue}, specs=make_specs(namespace)).count == 1
    else:
        with pytest.raises(NotPermitted) as caught:
            admit_items({"queue": queue}, specs=make_specs(namespace))
        assert caught.value.violations[0].field == "items[0].spec"


@pytest.mark.parametrize("name", ["kube-system", "kube-public", "argosy"])
def test_reserved_namespaces_are_no_queues(name: str) -> None:
    """Those of the clusters themselves, and ours with the credentials of services; neither by name nor by a list."""
    assert KnownQueue.allowed_namespaces(name, (), NamespaceRules(shares_default=False)) == frozenset()
    assert KnownQueue.allowed_namespaces(name, ()) == {"default"}
    assert KnownQueue.allowed_namespaces("red", (name, "blue")) == {"blue"}
    rules = NamespaceRules(reserved=frozenset({"batch-system"}))
    assert KnownQueue.allowed_namespaces("batch-system", (), rules) == {"default"}
    assert KnownQueue.allowed_namespaces("red", ("batch-system", name, "blue"), rules) == {"blue"}


TEXTS = st.sampled_from(["", "a", "a" * 63, "a" * 64, "a" * 100, "a" * 101, "a" * 1023, "a" * 1024])
ITEMS = st.builds(
    job_pb2.JobItem,
    spec=st.integers(-1, 3),
    queue=TEXTS,
    job_set=TEXTS,
    client_id=TEXTS,
    count=st.sampled_from([-1, 0, 1, 100_000, 100_001]),
    labels=st.sampled_from([{}, {str(n): "" for n in range(64)}, {str(n): "" for n in range(65)}]),
)
SPECS = st.builds(
    job_pb2.JobSpec,
    manifests=st.lists(st.sampled_from(["", "{}", " " * 262_144, " " * 262_145, "\u2603" * 87_382]), max_size=2)
    | st.integers(31, 33).map(lambda count: ["{}"] * count),
)


def texts_of(request: job_pb2.SubmitJobsRequest) -> list[list[bytes]]:
    """Return the manifests of a request's specs as bytes."""
    return [[manifest.encode() for manifest in spec.manifests] for spec in request.specs]


@given(st.builds(job_pb2.SubmitJobsRequest, specs=st.lists(SPECS, max_size=2), items=st.lists(ITEMS, max_size=3)))
def test_keeps_rules_is_never_surer_than_protovalidate(request: job_pb2.SubmitJobsRequest) -> None:
    """What the quick look passes has no violation; what it does not pass has one."""
    assert keeps_rules(texts_of(request), read_items(list(request.items))) is (not violations_of(request))


@pytest.mark.parametrize(("spec_count", "item_count"), [(1000, 1), (1001, 1), (1, 1000), (1, 1001)])
def test_keeps_rules_counts_as_protovalidate_does(spec_count: int, item_count: int) -> None:
    """The bounds on specs and items are the same in both."""
    request = job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=["{}"])] * spec_count,
        items=[job_pb2.JobItem(queue="a", job_set="a")] * item_count,
    )
    assert keeps_rules(texts_of(request), read_items(list(request.items))) is (not violations_of(request))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True), ("run-1/step_2.x:y@z+=#", True), ("1", True), ("a..b", True), ("a/.b", True),
        ("", False), ("-a", False), ("/a", False), ("a b", False), ("a\n", False), ("a\x00", False), ("é", False),
        ("../a", False), ("a/../b", False), ("a/..", False), ("a/./b", False), ("a\u202eb", False), ("'; --", False),
    ],
)  # fmt: skip
def test_name_may_hold_nothing_that_leads_astray(*, text: str, expected: bool) -> None:
    """Names are printable ASCII without spaces, quotes or steps upwards."""
    assert is_name(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True),
        ("a-1", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("A", False),
        ("-a", False),
        ("a-", False),
        ("", False),
        ("a\n", False),
    ],
)
def test_queue_name_is_dns_label(*, text: str, expected: bool) -> None:
    """Queue names can be namespaces."""
    assert is_queue_name(text) is expected


@pytest.mark.parametrize(
    ("labels", "annotations", "paths"),
    [
        ({"a": "b", "x.io/y": ""}, {"x.io/y": "any \u2603 text"}, []),
        ({"argosy.dev/job": ""}, {"argosy.dev/x": ""}, ["labels['argosy.dev/job']", "annotations['argosy.dev/x']"]),
        ({"a b": "", "a": "b c"}, {"": ""}, ["labels['a b']", "labels['a']", "annotations['']"]),
        ({}, {"a": "\x00"}, ["annotations['a']"]),
        ({}, {"a": "x" * (256 << 10)}, ["annotations"]),
    ],
)
def test_metadata_faults_follow_kubernetes(
    labels: dict[str, str], annotations: dict[str, str], paths: list[str]
) -> None:
    """Labels and annotations that Kubernetes would refuse are refused here."""
    assert [path for path, _ in metadata_faults(labels, annotations)] == paths


def test_spec_cache_reads_each_spec_once_and_forgets_the_least_used() -> None:
    """A spec is read at its first use; above the bound the least recently used goes."""
    cache = SpecCache(SpecLimits(), max_count=2)
    manifests = [[make_manifest(number)] for number in range(3)]
    first = cache.read(manifests[0])
    cache.read(manifests[1])
    assert cache.find(manifests[0]) is first
    cache.read(manifests[2])
    assert cache.find(manifests[0]) is first
    assert cache.find(manifests[1]) is None
    assert len(cache) == 2


def test_spec_cache_is_bounded_in_bytes_and_keeps_nothing_that_is_wrong() -> None:
    """Large specs push others out; a spec with faults is read again each time."""
    cache = SpecCache(SpecLimits(), max_count=100, max_bytes=5000)
    for number in range(10):
        cache.read([make_manifest(number)])
    assert 0 < len(cache) < 5
    before = len(cache)
    assert cache.read([b"{"]).violations
    assert (cache.find([b"{"]), len(cache)) == (None, before)


def test_specs_of_one_class_have_one_definition() -> None:
    """What the scheduler need not know does not make another class."""
    first, second = make_specs("", "default")
    assert first.row.hash != second.row.hash
    assert first.definition == second.definition
    assert np.array_equal(first.row.layout, b'[["Pod","pod"]]')


def test_unequal_client_ids_are_told_beside_other_faults() -> None:
    """One answer names every fault of a request, so that one round of mending is enough."""
    with pytest.raises(NotFound) as caught:
        admit_items({"client_id": "x"}, {"client_id": "x", "priority": 3}, {"queue": "none", "client_id": "x"})
    assert [violation.field for violation in caught.value.violations] == ["items[2].queue", "items[1].client_id"]
    assert "items[0]" in caught.value.violations[1].description


def test_admit_gives_each_job_its_durations_in_whole_seconds() -> None:
    """A duration is whole seconds, fractions rounded up; what an item does not say is unset, and 0 is a lifetime."""
    jobs = admit_items(
        {"count": 2, "lifetime": Duration(), "estimate": Duration(seconds=5, nanos=1)},
        {"time_limit": Duration(seconds=60), "hold": True, "job_set_limit": 4},
    )
    assert jobs.options is not None
    assert {name: values.tolist() for name, values in jobs.options.columns().items()} == {
        "lifetime_s": [0, 0, -1],
        "time_limit_s": [-1, -1, 60],
        "estimate_s": [6, 6, -1],
        "held": [-1, -1, 1],
        "job_set_limit": [-1, -1, 4],
    }
    assert admit_items({}, {"priority": 2}).options is None


@pytest.mark.parametrize(("given_s", "expected_s"), [(None, 60), (90, 60), (30, 30)])
def test_deadline_of_the_pods_is_a_time_limit_unless_a_shorter_one_is_given(
    given_s: int | None, expected_s: int
) -> None:
    """What the kubelet would end anyway, the leader may plan with."""
    document = json.loads(make_manifest())
    document["spec"]["activeDeadlineSeconds"] = 60
    specs = [*make_specs(), SpecCache(SpecLimits(), max_count=1).read([json.dumps(document).encode()])]
    given = {} if given_s is None else {"time_limit": Duration(seconds=given_s)}
    jobs = admit_items({}, {"spec": 1, "count": 2, **given}, specs=specs)
    assert jobs.options is not None
    assert jobs.options.time_limit_s.tolist() == [-1, expected_s, expected_s]
    assert jobs.options.lifetime_s.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("name", ["lifetime", "time_limit", "estimate"])
def test_duration_belongs_to_what_a_client_id_stands_for(name: str) -> None:
    """A repeat with another duration is another job; one without any has the hash that it always had."""
    hashes = {
        admit_items({"client_id": "a", **options}).payload_hashes
        for options in ({}, {name: Duration(seconds=5)}, {name: Duration(seconds=6)})
    }
    assert len(hashes) == 3


@pytest.mark.parametrize("name", ["lifetime", "time_limit", "estimate"])
@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        (Duration(seconds=-1), False),
        (Duration(nanos=-1), False),
        (Duration(seconds=315_360_000), True),
        (Duration(seconds=315_360_001), False),
        (Duration(seconds=1 << 40), False),
        (Duration(seconds=1, nanos=5), True),
    ],
    ids=str,
)
def test_duration_out_of_range_is_refused(name: str, given: Duration, *, is_right: bool) -> None:
    """None is negative or longer than ten years, and the quick look agrees with the rules of the .proto file."""
    item = job_pb2.JobItem(queue="red", job_set="one", **{name: given})
    request = job_pb2.SubmitJobsRequest(specs=[job_pb2.JobSpec(manifests=["{}"])], items=[item])
    assert keeps_rules(texts_of(request), read_items([item])) is is_right
    assert [one.field for one in violations_of(request)] == ([] if is_right else [f"items[0].{name}"])


@pytest.mark.parametrize(("name", "is_right"), [("lifetime", True), ("time_limit", False), ("estimate", False)])
def test_duration_of_nothing_is_a_lifetime_only(name: str, *, is_right: bool) -> None:
    """A lifetime of 0 is preemptible at once; no run is expected or allowed to take no time."""
    item = job_pb2.JobItem(queue="red", job_set="one", **{name: Duration()})
    request = job_pb2.SubmitJobsRequest(specs=[job_pb2.JobSpec(manifests=["{}"])], items=[item])
    assert keeps_rules(texts_of(request), read_items([item])) is is_right
    assert (not violations_of(request)) is is_right

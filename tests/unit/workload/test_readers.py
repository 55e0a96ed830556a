"""Readers: what each format means, and how damage is told."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MEMORY
from argosy_workload import tracefile
from argosy_workload.clusterdata import read_machines, read_openb_nodes, read_openb_pods, read_philly, read_surf
from argosy_workload.model import GPU, GPU_MODEL_LABEL
from argosy_workload.native import parse_duration_s, read_native, read_native_nodes
from argosy_workload.swf import read_swf
from argosy_workload.traces import detect_format, read_nodes, read_trace
from argosy_workload.yamltree import parse_yaml

GIB = 2**30


def test_swf_becomes_cores_and_seconds_from_the_first_submit(samples: type[Any], tmp_path: Path) -> None:
    """Processors asked (else used) are cores, unknown run times are left out, the queue is the field that differs."""
    workload = read_swf(samples.write(tmp_path, samples.swf))
    assert workload.client_ids == ("job-2", "job-1", "job-4")
    np.testing.assert_array_equal(workload.submit_s, [0, 10, 40])
    np.testing.assert_array_equal(workload.run_s, [50, 100, 12.5])
    assert [workload.shapes[i].amount(CPU) for i in workload.shape] == [8000, 4000, 2000]
    assert [workload.shapes[i].amount(MEMORY) for i in workload.shape] == [8 * GIB, 4 * GIB, 4 << 20]
    assert [workload.queues[i].name for i in workload.queue] == ["user-8", "user-7", "user-7"]
    np.testing.assert_array_equal(workload.estimate_s, [np.nan, 200, 60])
    np.testing.assert_array_equal(workload.user, [1, 0, 0])
    assert any("1 of 4 jobs" in note for note in workload.notes)


@pytest.mark.parametrize(
    "line",
    [
        "1 0 -1 50 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1 0.93 n1,n2",
        "1 0 -1 50 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1 {n1 n2} ; moved",
        "{1 0 -1 50 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1}",
        "1 0 -1 50 8 -1 -1 8 60 -1 1 1 1 1 1 1 -1 -1",
    ],
    ids=["columns", "list-in-braces", "line-in-braces", "no-header"],
)
def test_swf_of_simulators_is_read_by_its_first_18_columns(samples: type[Any], tmp_path: Path, line: str) -> None:
    """More columns, braces and no header comments are no reason to refuse a log."""
    workload = read_trace(samples.write(tmp_path, f"{line}\n")).workload
    assert (workload.run_s.tolist(), workload.shapes[0].amount(CPU)) == ([50.0], 8000)


def test_format_that_is_said_is_taken_for_granted(samples: type[Any], tmp_path: Path) -> None:
    """A log whose first lines look like nothing known is read once its format is said."""
    path = samples.write(tmp_path, f"# made by a simulator\n{samples.swf}")
    with pytest.raises(InvalidRequest, match="--format"):
        read_trace(path)
    assert len(read_trace(path, trace_format="swf").workload) == len(read_swf(path))


def test_swf_memory_counts_per_processor(samples: type[Any], tmp_path: Path) -> None:
    """Field 10, else field 7, is KB for each processor."""
    line = "1 0 0 5 4 -1 2048 4 -1 4096 1 1 1 -1 -1 -1 -1 -1\n2 0 0 5 4 -1 2048 4 -1 -1 1 1 1 -1 -1 -1 -1 -1\n"
    workload = read_swf(samples.write(tmp_path, line))
    assert [workload.shapes[i].amount(MEMORY) for i in workload.shape] == [4 * 4096 * 1024, 4 * 2048 * 1024]


def test_swf_machine_is_one_node_of_all_processors(samples: type[Any], tmp_path: Path) -> None:
    """A parallel machine becomes one node, because a job is one pod."""
    nodes = read_trace(samples.write(tmp_path, samples.swf)).nodes
    assert len(nodes) == 1
    assert nodes.capacity() == {CPU: 16000, MEMORY: 16 * GIB, "pods": 110}


def test_openb_pods_become_shapes_with_gpu_as_a_quantity(samples: type[Any], tmp_path: Path) -> None:
    """A share of one device counts its thousandths, several devices count whole, queue = qos, run = end - start."""
    workload = read_openb_pods(samples.write(tmp_path, samples.pods, packed=True))
    by_name = {name: row for row, name in enumerate(workload.client_ids)}
    shapes = [workload.shapes[i] for i in workload.shape]
    assert shapes[by_name["pod-0"]].amount(GPU) == 460
    assert shapes[by_name["pod-1"]].amount(GPU) == 2000
    assert shapes[by_name["pod-1"]].gpu_models == ("T4", "V100")
    assert shapes[by_name["pod-2"]].requests == ((CPU, 1000), (MEMORY, GIB))
    np.testing.assert_array_equal(workload.submit_s, [0, 5, 10])
    np.testing.assert_array_equal(workload.run_s, [100, 1, 590])
    assert [workload.queues[i].name for i in workload.queue] == ["be", "burstable", "ls"]
    assert any("1 pods were never scheduled" in note for note in workload.notes)
    assert any("GPU is a plain quantity" in note for note in workload.notes)


def test_openb_nodes_lie_in_the_cluster_of_their_checksum(samples: type[Any], tmp_path: Path) -> None:
    """A node's cluster is crc32 of its name modulo three; equal machines share a model."""
    nodes = read_openb_nodes(samples.write(tmp_path, samples.nodes))
    assert [nodes.clusters[i] for i in nodes.cluster] == [
        f"cluster-{zlib.crc32(name) % 3}" for name in (b"node-a", b"node-b", b"node-c")
    ]
    assert len(nodes.models) == 2
    assert nodes.capacity()[GPU] == 16000
    assert dict(nodes.models[0].labels)[GPU_MODEL_LABEL] == "G2"
    assert GPU_MODEL_LABEL not in dict(nodes.models[1].labels)


def test_philly_jobs_get_stated_cores_and_memory_for_their_gpus(samples: type[Any], tmp_path: Path) -> None:
    """The list names GPUs only; the rest is assumed per GPU and said."""
    workload = read_philly(samples.write(tmp_path, samples.philly))
    assert dict(workload.shapes[workload.shape[0]].requests) == {CPU: 32000, MEMORY: 128 * GIB, GPU: 8000}
    np.testing.assert_array_equal(workload.submit_s, [0, 60])
    np.testing.assert_array_equal(workload.run_s, [100.5, 20])
    assert [queue.name for queue in workload.queues] == ["7f04ca", "6214e9"]
    assert any("4 cores and 16 GiB per GPU assumed" in note for note in workload.notes)


def test_surf_tasks_are_read_in_milliseconds_and_megabytes(samples: type[Any], tmp_path: Path) -> None:
    """Times are ms since 1970, memory MB; order is by submit."""
    workload = read_surf(samples.write(tmp_path, samples.surf))
    assert workload.client_ids == ("task-20", "task-21")
    np.testing.assert_array_equal(workload.submit_s, [0, 60])
    np.testing.assert_array_equal(workload.run_s, [1.5, 27930])
    assert dict(workload.shapes[workload.shape[0]].requests) == {CPU: 8000, MEMORY: 100_000 * 10**6}


def test_machines_become_nodes_of_a_cluster(samples: type[Any], tmp_path: Path) -> None:
    """Nodes, CPUs and KB stand in columns 3, 4 and 6."""
    nodes = read_machines(samples.write(tmp_path, samples.machines))
    assert (len(nodes), nodes.clusters) == (3, ("seth",))
    assert dict(nodes.models[0].allocatable) == {CPU: 2000, MEMORY: GIB, "pods": 110}


def test_native_keeps_everything_a_person_wrote(samples: type[Any], tmp_path: Path) -> None:
    """Weights, counts, job sets, priorities, estimates, constraints and durations arrive as written."""
    workload = read_native(samples.write(tmp_path, samples.native))
    assert workload.source == "two queues"
    assert {queue.name: queue.weight for queue in workload.queues} == {"research": 2.0, "prod": 1.0}
    assert workload.client_ids == ("job-0", "s", "s/1", "s/2")
    np.testing.assert_array_equal(workload.submit_s, [0, 90, 90, 90])
    np.testing.assert_array_equal(workload.run_s, [600, 45, 45, 45])
    np.testing.assert_array_equal(workload.priority, [0, 5, 5, 5])
    np.testing.assert_array_equal(workload.estimate_s, [np.nan, 60, 60, 60])
    assert [workload.job_sets[i] for i in workload.job_set] == ["workload", "sweep", "sweep", "sweep"]
    (shape,) = workload.shapes
    assert (shape.gpu_models, shape.platform) == (("T4", "V100"), "linux/amd64")
    nodes = read_native_nodes(tmp_path / "trace")
    assert (len(nodes), nodes.clusters, nodes.capacity()[MEMORY]) == (2, ("west",), 64 * GIB)


def test_native_keeps_members_and_lifetimes(samples: type[Any], tmp_path: Path) -> None:
    """A shape of several members is a gang's, its requests those of each; a job without a lifetime has none."""
    text = samples.native.replace("    platform: linux/amd64", "    platform: linux/amd64\n    member_count: 8")
    workload = read_native(samples.write(tmp_path, text.replace("    estimate: 1m", "    lifetime: 0s")))
    np.testing.assert_array_equal(workload.lifetime_s, [np.nan, 0, 0, 0])
    (shape,) = workload.shapes
    assert shape.member_count == 8
    (group,) = shape.scheduling_class().gang
    assert (group.minimum, group.maximum, dict(group.pod.requests)[CPU]) == (8, 8, 4000)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1h30m", 5400), ("37.5s", 37.5), ("500ms", 0.5), ("1d", 86400), ("2m0.5s", 120.5)],
)
def test_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    """Units join; a bare number is seconds."""
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1 h", "5x", "1e300", "s", "1h-30m"])
def test_duration_that_is_none_is_refused(text: str) -> None:
    """Anything else is an error that shows the forms."""
    with pytest.raises(InvalidRequest, match="not a duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("swf", "swf"),
        ("pods", "openb-pods"),
        ("nodes", "openb-nodes"),
        ("philly", "philly"),
        ("surf", "surf"),
        ("native", "native"),
        ("machines", "machines"),
    ],
)
def test_format_is_found_from_the_text(samples: type[Any], sample: str, name: str) -> None:
    """Names of files say nothing."""
    assert detect_format(getattr(samples, sample)) == name


@pytest.mark.parametrize("sample", ["swf", "pods", "philly", "surf", "native"])
def test_any_trace_is_read_plain_or_packed(samples: type[Any], tmp_path: Path, sample: str) -> None:
    """Gzip is found by its first bytes."""
    plain = read_trace(samples.write(tmp_path, getattr(samples, sample)))
    packed = read_trace(samples.write(tmp_path, getattr(samples, sample), packed=True))
    np.testing.assert_array_equal(plain.workload.run_s, packed.workload.run_s)


@pytest.mark.parametrize("sample", ["nodes", "machines", "native", "swf"])
def test_any_machine_list_is_read(samples: type[Any], tmp_path: Path, sample: str) -> None:
    """Whatever tells machines can be given as nodes."""
    assert len(read_nodes(samples.write(tmp_path, getattr(samples, sample)))) >= 1


def test_nodes_can_be_a_short_text() -> None:
    """Count, cores and memory are enough; memory defaults to 4 GiB a core."""
    nodes = read_nodes("6x32cpu", cluster_count=2)
    assert nodes.capacity() == {CPU: 6 * 32000, MEMORY: 6 * 128 * GIB, "pods": 660}
    assert len(nodes.rows_of("cluster-1")) == 3
    with pytest.raises(InvalidRequest, match="is no file"):
        read_nodes("six nodes")


BAD = [
    ("pods", "pod-1,4000", "pod-1,4x", r"line 3, column 2 \(cpu_milli\): '4x' is not a whole number"),
    ("pods", "pod-1,4000", "pod-1,-4", r"line 3, column 2 \(cpu_milli\)"),
    ("pods", "pod-1,4000", "pod-1,nan", r"line 3, column 2 \(cpu_milli\)"),
    ("pods", "pod-1,4000", "pod-1,inf", r"line 3, column 2 \(cpu_milli\)"),
    ("pods", "pod-1,4000", "pod-1,1e30", r"line 3, column 2 \(cpu_milli\)"),
    ("pods", "pod-1,4000", "pod-1,4_0", r"line 3, column 2 \(cpu_milli\)"),
    ("pods", "pod-1,4000", "pod-1,4.5", r"line 3, column 2 \(cpu_milli\)"),
    ("pods", "pod-1,4000", "pod-1", r"line 3, column 11: 10 fields, but the header has 11"),
    ("pods", "BE,", '"BE,', r"not comma-separated values"),
    ("pods", ",BE,", ",-,", r"line 3, column 7 \(qos\): '-' cannot be made a queue name"),
    ("pods", "pod-1", "pod-0", r"line 3, column 1 \(name\): 'pod-0' stands twice"),
    ("pods", ",700,", ",109,", r"line 2, column 10 \(deletion_time\): lies before"),
    ("pods", "qos", "quality", r"line 1: column qos is missing"),
    ("nodes", "node-b", "node-a", r"line 3, column 1 \(sn\): 'node-a' stands twice"),
    ("nodes", "32000", "0", r"line 3, column 2 \(cpu_milli\)"),
    ("philly", "2017-09-04 10:31:41", "yesterday", r"line 3, column 1 \(timestamp\): 'yesterday' is not a time"),
    ("philly", ",8,", ",0,", r"line 2, column 3 \(num_gpus\)"),
    ("surf", "27930000", "-1", r"line 2, column 3 \(duration\)"),
    ("swf", "  50 8", "  50 x", r"line 4, column 5 \(processors used\): 'x' is not a number"),
    ("swf", "  50 8", "  50 1e9", r"line 4, column 5 \(processors used\): 1e\+09 is out of range"),
    ("swf", "  50 8", "  nan 8", r"line 4, column 4 \(run time\)"),
    ("swf", "2   0 0", "2  -7 0", r"line 4, column 2 \(submit time\): -7 is out of range"),
    ("swf", "2   0 0", "2   0", r"line 4, column 18: 17 fields; .* has 18"),
    ("machines", "\t3\t", "\t0\t", r"line 1, column 3: '0' is not a whole number"),
    ("native", "workload/v1", "workload/v9", r"line 1, column 10: this is not a version"),
    ("native", "shape: train, queue", "shape: drain, queue", r"line 13, column 13: there is no shape 'drain'"),
    ("native", "run: 10m", "run: soon", r"line 13, column 42: 'soon' is not a duration"),
    ("native", "run: 10m", "runs: 10m", r"line 13, column 43: a job has no key 'runs'"),
    ("native", ", run: 10m", "", r"line 13, column 5: a job lacks run"),
    ("native", "16Gi", "16Go", r"line 9, column 34: '16Go' is not a quantity"),
    ("native", "count: 3", "count: 2.5", r"line 18, column 12: 2.5 is not a whole number"),
    ("native", "    platform: linux", "    member_count: 1001\n    platform: linux", r"line 11, column 19"),
    ("native", "estimate: 1m", "lifetime: ever", r"line 21, column 15: 'ever' is not a duration"),
    ("native", "count: 3", "count: 99999999", r"line 18, column 12"),
    ("native", "queue: prod", "queue: Prod", r"line 15, column 12: 'Prod' is no legal name"),
    ("native", "weight: 2", "weight: 0", r"line 4, column 30: '0' is not a number"),
    ("native", "queue: prod", "queue: &a prod\n    shape: *a", r"line 16, column 12: aliases"),
    ("native", "queue: prod", "queue: prod\n    queue: prod", r"line 16, column 5: the key 'queue' stands twice"),
    ("native", "client_id: s", "client_id: job-0", r"line 14, column 5: the client id 'job-0' stands twice"),
    ("swf", "2   0 0", "1   0 0", r"line 4, column 1 \(job number\): job 1 stands twice"),
    ("native", "jobs:", "jobs: [", r"line \d+, column \d+: not YAML"),
    ("native", "jobs:", "jobs: 1\nmore:", r"line 14, column 3: the document has no key 'more'"),
]


@pytest.mark.parametrize(("sample", "old", "new", "message"), BAD, ids=[f"{bad[0]}-{i}" for i, bad in enumerate(BAD)])
def test_damage_is_refused_with_its_place(
    *, samples: type[Any], tmp_path: Path, sample: str, old: str, new: str, message: str
) -> None:
    """One wrong field gives one message with file, line and column."""
    text = getattr(samples, sample)
    assert old in text
    path = samples.write(tmp_path, text.replace(old, new, 1))
    read = read_nodes if sample in {"nodes", "machines"} else read_trace
    with pytest.raises(InvalidRequest, match=message) as error:
        read(path)
    assert str(path) in str(error.value)


def test_damaged_gzip_is_refused(samples: type[Any], tmp_path: Path) -> None:
    """Cut short, overwritten, or not gzip at all behind the first bytes."""
    packed = gzip.compress(samples.pods.encode() * 50)
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    for data, message in (
        (packed[:-20], "ends too early"),
        (bytes(damaged), "damaged|ends too early|not comma|is not|fields|UTF-8|binary"),
        (b"\x1f\x8bgarbage", "damaged|ends too early"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            read_trace(samples.write(tmp_path, data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no known trace format"),
        (b"\n\n", "no known trace format"),
        (b"name,\xff\xfe\n", r"line 1, column 6: byte 0xff is no UTF-8"),
        (b"ok\n\x00\x01", r"line 2, column 1: this is binary data"),
        (b"a,b\n1,2\n", "no known trace format; known are: Standard Workload Format"),
        (b"{}", "no known trace format"),
        (b'{"version": 1}', "not a workload profile"),
        (b"sn,cpu_milli,memory_mib,gpu,model\nn,1,1,0,\n", "a list of machines"),
    ],
    ids=["empty", "blank", "no-text", "binary", "other-table", "other-json", "bad-profile", "machines"],
)
def test_what_is_no_trace_is_refused(samples: type[Any], tmp_path: Path, data: bytes, message: str) -> None:
    """The message says what could be read."""
    with pytest.raises(InvalidRequest, match=message):
        read_trace(samples.write(tmp_path, data))


def test_missing_file_and_folder_are_told_apart(tmp_path: Path) -> None:
    """Both are wrong input, and each message says which."""
    with pytest.raises(InvalidRequest, match="no such file"):
        read_trace(tmp_path / "none")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_trace(tmp_path)


def test_small_file_that_unpacks_to_much_is_refused(samples: type[Any], tmp_path: Path) -> None:
    """The bound is on what is unpacked."""
    path = samples.write(tmp_path, b"a" * 100_000, packed=True)
    with pytest.raises(InvalidRequest, match="longer than 50000 bytes"):
        tracefile.read_text(path, max_bytes=50_000)


@pytest.mark.parametrize("opening", ["[", "- ", "a:\n "], ids=["flow", "block", "mapping"])
def test_deep_yaml_is_refused_without_recursion(tmp_path: Path, opening: str) -> None:
    """A hundred thousand levels end in an error, not in a lost process."""
    text = opening * 100_000 if opening != "a:\n " else "".join(" " * i + "a:\n" for i in range(300))
    with pytest.raises(InvalidRequest, match=r"nested deeper|not YAML"):
        parse_yaml(tmp_path / "deep", text)


@given(
    data=st.binary(max_size=400),
    sample=st.sampled_from(["swf", "pods", "philly", "surf", "native"]),
    cut=st.integers(0, 400),
)
def test_no_garbage_escapes_as_another_error(
    *, samples: type[Any], tmp_path_factory: pytest.TempPathFactory, data: bytes, sample: str, cut: int
) -> None:
    """Whatever bytes stand in a file, reading gives a workload or InvalidRequest."""
    base = getattr(samples, sample).encode()
    path = samples.write(tmp_path_factory.getbasetemp(), base[:cut] + data + base[cut:])
    try:
        workload = read_trace(path).workload
    except InvalidRequest as error:
        told = str(error)
    else:
        told = str(path)
        assert len(workload) > 0
    assert str(path) in told

"""Reports: figures worked out by hand, fairness, and the forms a report takes."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy_core.errors import InvalidRequest
from argosy_core.queueing.water_filling import fill_water
from argosy_workload import pictures, rendering
from argosy_workload.fairness import fill_weighted, integrate_steps, jain_index, measure_fairness
from argosy_workload.fcfs import simulate_fcfs
from argosy_workload.pictures import report_to_png
from argosy_workload.records import RunRecords, RunState
from argosy_workload.rendering import report_to_html, report_to_json, report_to_text
from argosy_workload.report import Percentiles, ScalingSeries, add_first_come, build_report
from argosy_workload.verdict import describe_verdict


@pytest.mark.parametrize(
    ("demands", "weights", "capacity", "expected"),
    [
        ([4, 4], [1, 1], 4, [2, 2]),
        ([1, 9], [1, 1], 6, [1, 5]),
        ([9, 9], [2, 1], 6, [4, 2]),
        ([1, 2], [1, 1], 9, [1, 2]),
        ([2, 8, 10], [1, 1, 2], 12, [2, 10 / 3, 20 / 3]),
        ([0, 5], [1, 1], 3, [0, 3]),
        ([0, 0], [1, 1], 3, [0, 0]),
    ],
)
def test_weighted_filling_gives_demand_or_weight_times_level(
    demands: list[float], weights: list[float], capacity: float, expected: list[float]
) -> None:
    """Worked by hand: the small demands are met, the others share by weight."""
    filled = fill_weighted(np.array([demands], float), np.array(weights, float), np.array([capacity], float))
    np.testing.assert_allclose(filled[0], expected)


@given(
    rows=st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 10)), min_size=1, max_size=8),
    capacity=st.floats(0, 300),
)
def test_weighted_filling_agrees_with_the_schedulers_yardstick(rows: Any, capacity: float) -> None:
    """Two formulations of weighted max-min, one answer."""
    demands, weights = (np.array(column) for column in zip(*rows, strict=True))
    filled = fill_weighted(demands[None, :], weights, np.array([capacity]))[0]
    np.testing.assert_allclose(filled, fill_water(demands, weights, capacity), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("values", "index"), [([1, 1, 1], 1), ([1, 0], 0.5), ([2, 1], 0.9), ([], 1), ([0, 0], 1)])
def test_jain_index_is_one_for_equal_shares(values: list[float], index: float) -> None:
    """All for one of n gives 1 / n."""
    assert jain_index(np.array(values, dtype=np.float64)) == pytest.approx(index)


def test_steps_are_integrated_exactly() -> None:
    """A step that covers part of an interval counts by its part; open ends run to the edge; NaN never begins."""
    starts, ends = np.array([0.5, 2.0, np.nan]), np.array([1.5, np.nan, 3.0])
    means = integrate_steps(starts, ends, np.array([2.0, 4.0, 8.0]), np.array([0.0, 1.0, 2.0, 4.0]))
    np.testing.assert_allclose(means, [1.0, 1.0, 4.0])


def test_fairness_compares_with_what_was_held_not_with_what_was_free() -> None:
    """Two equal queues want all; one holds 3/4, the other 1/4 of what is held: each is off by 1/4."""
    fairness = measure_fairness(np.ones((4, 2)), np.tile([0.6, 0.2], (4, 1)), np.ones(2), np.ones(4))
    assert fairness.largest_deviation_ratio == pytest.approx(0.25)
    assert fairness.largest_moment_ratio == pytest.approx(0.2)
    assert fairness.jain_index == pytest.approx((1.5 + 0.5) ** 2 / (2 * (1.5**2 + 0.5**2)))
    assert fairness.held_ratio == pytest.approx((0.75, 0.25))
    assert fairness.ideal_ratio == pytest.approx((0.5, 0.5))
    assert fairness.contended_ratio == 1


def test_fairness_over_the_run_forgives_taking_turns() -> None:
    """Queues that hold all in turn are fair over the run, and unfair at each moment."""
    fairness = measure_fairness(np.ones((2, 2)), np.eye(2), np.ones(2), np.ones(2))
    assert fairness.jain_index == pytest.approx(1)
    assert fairness.jain_index_mean == pytest.approx(0.5)


def make_replay(samples: type[Any]) -> RunRecords:
    """Return records of three jobs on a machine of four cores at speed 10, times chosen by hand."""
    workload = samples.make_workload((0, 100, 4, "a"), (10, 50, 2, "b"), (20, 0, 2, "b"))
    records = RunRecords.start(workload, speed=10.0)
    records.submit_s[:] = [5.0, 6.0, 7.0]
    records.acknowledged_s[:] = [5.010, 6.020, 7.030]
    records.considered_s[:] = [5.1, 6.1, np.nan]
    records.leased_s[:] = [5.2, 15.4, np.nan]
    records.running_s[:] = [5.5, 15.5, np.nan]
    records.finished_s[:] = [15.5, 20.5, 25.0]
    records.state[:] = [RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.CANCELLED]
    return records


def test_report_figures_are_those_worked_out_by_hand(samples: type[Any]) -> None:
    """Real latencies in ms; wait, slowdown, utilisation in trace time; counts by state."""
    report = build_report(
        make_replay(samples), samples.make_nodes(), title="t", counters={"conflicts": 2}, settings={"seed": "0"}
    )
    assert report.states == {"succeeded": 2, "cancelled": 1}
    assert report.elapsed_s == pytest.approx(20)
    assert report.makespan_s == pytest.approx(200)
    assert report.throughput_per_s == pytest.approx(3 / 20)
    assert report.latency_ms["acknowledged"].p50 == pytest.approx(20)
    assert report.latency_ms["acknowledged"].max == pytest.approx(30)
    assert report.latency_ms["considered"].count == 2
    assert report.latency_ms["leased"].max == pytest.approx(9400)
    assert report.wait_s.max == pytest.approx(95)
    assert report.bounded_slowdown.max == pytest.approx((95 + 50) / 50)
    assert report.utilisation["cpu"] == pytest.approx((100 * 1.0 + 50 * 0.5) / 200)
    assert report.counters == {"conflicts": 2, "retries": 0}
    assert any("100 ms are 1 s" in note for note in report.notes)
    by_name = {queue.name: queue for queue in report.queues}
    assert (by_name["b"].job_count, by_name["b"].finished_count) == (2, 2)
    assert by_name["b"].mean_wait_s == pytest.approx(95)


def test_report_of_a_simulation_has_no_real_latencies(samples: type[Any]) -> None:
    """Virtual milliseconds would mislead."""
    workload = samples.make_workload((0, 100, 4), (0, 5, 4))
    report = build_report(simulate_fcfs(workload, samples.make_nodes()), samples.make_nodes(), title="fcfs")
    assert (report.clock, report.latency_ms) == ("virtual", {})
    assert report.wait_s.max == 100
    assert report.bounded_slowdown.max == pytest.approx(105 / 10)
    assert report.utilisation_loaded["cpu"] == pytest.approx(1, abs=0.01)


def test_job_that_never_ran_waits_until_it_left(samples: type[Any]) -> None:
    """The series of waiting jobs ends where the job ended."""
    report = build_report(make_replay(samples), samples.make_nodes(), title="t")
    waiting = np.array(report.series.waiting)
    middles = (np.array(report.series.edges_s)[1:] + np.array(report.series.edges_s)[:-1]) / 2
    assert waiting[(middles > 110) & (middles < 195)] == pytest.approx(1)


def test_rows_never_submitted_are_left_out(samples: type[Any]) -> None:
    """Records may be larger than the run."""
    records = make_replay(samples)
    records.submit_s[2] = np.nan
    report = build_report(records, samples.make_nodes(), title="t")
    assert report.job_count == 2
    assert build_report(records.first(1), samples.make_nodes(), title="t").job_count == 1
    records.submit_s[:] = np.nan
    with pytest.raises(InvalidRequest, match="no job was submitted"):
        build_report(records, samples.make_nodes(), title="t")


def test_records_of_a_benchmark_are_filled_in_as_it_goes(samples: type[Any]) -> None:
    """Rows that are drawn while the run goes on start empty."""
    workload = samples.make_workload((0, 1, 1))
    records = RunRecords.empty(3, source="bench", queues=workload.queues, shapes=workload.shapes)
    records.submit_s[:2] = [1.0, 2.0]
    records.running_s[0], records.finished_s[0], records.state[0] = 1.5, 3.0, RunState.SUCCEEDED
    report = build_report(records, samples.make_nodes(), title="b")
    assert report.states == {"queued": 1, "succeeded": 1}
    assert report.latency_ms["leased"] is None


def test_percentiles_of_nothing_are_none() -> None:
    """Unknown is not zero."""
    assert Percentiles.of(np.array([np.nan])) is None


def test_report_text_shows_every_section(samples: type[Any]) -> None:
    """A person reads figures with their units, and the notes."""
    text = report_to_text(
        build_report(make_replay(samples), samples.make_nodes(), title="my run", notes=("mind this",))
    )
    for part in ("my run", "jobs/s", "acknowledged", "p99", "Jain index", "conflicts", "mind this", "utilisation cpu"):
        assert part in text
    assert max(map(len, text.splitlines())) < 160


def test_report_json_is_strict_and_complete(samples: type[Any]) -> None:
    """NaN is no JSON; every figure is there by name."""
    report = build_report(make_replay(samples), samples.make_nodes(), title="t")
    text = report_to_json(replace(report, throughput_per_s=float("nan")))
    document = json.loads(text, parse_constant=pytest.fail)
    assert document["throughput_per_s"] is None
    assert document["version"] == "argosy.dev/run-report/v1"
    assert document["latency_ms"]["acknowledged"]["p50"] == pytest.approx(20)
    assert len(document["series"]["waiting"]) == len(document["series"]["edges_s"]) - 1


def test_report_html_is_one_file_and_escapes_what_it_shows(samples: type[Any]) -> None:
    """Nothing is loaded from elsewhere, foreign names cannot become markup, equal reports give equal pages."""
    records = replace(make_replay(samples), source="<script>alert(1)</script>")
    report = build_report(records, samples.make_nodes(), title="a <b> & c", notes=("<i>",))
    page = report_to_html([report, report])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "a &lt;b&gt; &amp; c" in page
    for loaded in ("src=", "<link", "@import", 'href="http'):
        assert loaded not in page
    assert page.count("<svg") == 2 * 2  # of each for wide and for narrow screens
    assert "mathdefault" not in page  # nobody reads 10 to the power of 0
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert ET.fromstring(svg).tag.endswith("svg")
    body = page[page.index("<body>") + len("<body>") : page.index("</body>")]
    assert body[: len(body) // 2] == body[len(body) // 2 :]  # drawn anew for each; a second page would take seconds


def test_long_waits_are_written_out(samples: type[Any]) -> None:
    """A person reads 36,500 s, not 3.65e+04 s."""
    report = build_report(make_replay(samples), samples.make_nodes(), title="t")
    assert report.wait_s is not None
    text = report_to_text(replace(report, wait_s=replace(report.wait_s, p99=999.96, max=36_500.4)))
    assert "p99 1,000 s, max 36,500 s, mean" in text


def test_report_png_is_a_picture(samples: type[Any]) -> None:
    """Also of a simulation, whose waits are plotted in place of latencies."""
    workload = samples.make_workload((0, 100, 4), (0, 5, 4))
    report = build_report(simulate_fcfs(workload, samples.make_nodes()), samples.make_nodes(), title="fcfs")
    assert report_to_png(report).startswith(b"\x89PNG")


def test_report_tells_of_pods_that_were_resized_in_text_too(samples: type[Any]) -> None:
    """Whoever does not see the plot reads the same; without resized pods nothing of it is there."""
    pod = ScalingSeries(at_s=(0.0, 5.0), requested=(2.0, 1.0), approved=(2.0, 1.0), used=(0.5, 0.5), resize_count=1)
    scaling = replace(
        pod, requested=(8.0, 6.0), approved=(8.0, 4.0), used=(2.0, 3.0), pod_count=(4, 4), short_ratio=0.125,
        resize_count=3, pods={"of job 7": pod},
    )  # fmt: skip
    plain = build_report(make_replay(samples), samples.make_nodes(), title="t")
    report = replace(plain, scaling=scaling)
    for text in ("mean 7 cores, most 8", "mean 6 cores, most 8", "mean 2.5 cores, most 3", "12.50% of their time"):
        assert text in report_to_text(report)
        assert text not in report_to_text(plain)
    page = report_to_html(report)
    label = page[page.index("aria-label=") : page.index("<svg")]
    assert "approved: mean 6 cores" in label
    assert "pod of job 7: approved 1 to 2 cores, used 0.5 in the mean" in label
    assert "pods that are resized, all" in page
    assert "pods that are resized, all" not in report_to_html(plain)
    assert json.loads(report_to_json(report))["scaling"]["pods"]["of job 7"]["approved"] == [2, 1]


def test_verdict_says_what_happened_and_who_was_kept_waiting(samples: type[Any]) -> None:
    """Two queues of weights 1 and 1 on four cores: b's second job waits for all of a's, served as they come."""
    workload = samples.make_workload(*[(0, 10, 4, "a")] * 9, (0, 10, 4, "b"))
    nodes = samples.make_nodes()
    late = simulate_fcfs(workload, nodes)
    # By turns: a, b, then the rest of a.
    starts_s = 10.0 * np.array([0, 2, 3, 4, 5, 6, 7, 8, 9, 1])
    early = replace(late, leased_s=starts_s, running_s=starts_s, finished_s=starts_s + 10)
    report = add_first_come(build_report(early, nodes, title="t"), workload, nodes)

    assert describe_verdict(report) == (
        "All 10 jobs succeeded in 100.0 s (0.1 a second).",
        "Work waited for room 90% of the time; 100% of the cores were used meanwhile.",
        (
            "The queue farthest from what its weight entitles it to was off by 0.0% of all work; "
            "with first come, first served by 45.0%."
        ),
        "A job of b waits 10.0 s in the mean; first come, first served lets it wait 90.0 s.",
    )
    assert describe_verdict(report)[0] in report_to_text(report)
    assert "first come: wait" in report_to_text(report)
    page = report_to_html(report)
    assert "prefers-color-scheme:dark" in page
    # On a narrow screen the plots stand one below the other, none of them cut off or too small to read.
    assert "@media(max-width:40rem){.columns-1{display:block}.columns-2{display:none}}" in page
    sizes = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', page)
    (wide, low), (narrow, high) = [(float(width), float(height)) for width, height in sizes]
    assert (wide, high) == (2 * narrow, 2 * low)
    assert json.loads(report_to_json(report))["first_come"]["makespan_s"] == 100


def test_verdict_names_jobs_that_did_not_succeed(samples: type[Any]) -> None:
    """One of three was cancelled, and nothing is said about shares where there was room."""
    sentences = describe_verdict(build_report(make_replay(samples), samples.make_nodes(), title="t"))
    assert sentences[0] == "2 of 3 jobs succeeded in 20.0 s (0.15 a second); 1 cancelled."


def test_distribution_of_waits_moves_no_value(samples: type[Any]) -> None:
    """Half of the jobs wait for no time at all, and the curve says 0 for them, not a second."""
    nodes = samples.make_nodes()
    report = build_report(simulate_fcfs(samples.make_workload((0, 5, 4), (0, 5, 4)), nodes), nodes, title="t")
    (queue,) = report.queues
    assert (queue.wait_s.curve[0], queue.wait_s.curve[-1]) == (0, 5)


def _linear(colour: np.ndarray) -> np.ndarray:
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def _contrast(one: np.ndarray, other: np.ndarray) -> float:
    """Return the ratio that WCAG 2 defines."""
    low, high = sorted(float(_linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def _lab(colour: np.ndarray) -> np.ndarray:
    """Return a colour of sRGB in CIELAB."""
    to_xyz = [[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]]
    x, y, z = np.cbrt(_linear(colour) @ to_xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_queues_stand_out_from_the_page_and_from_each_other(scheme: str) -> None:
    """At least 3 to 1 against the background, as WCAG 2 wants of graphics, also as a dark page turns them round."""

    def colour(text: str) -> np.ndarray:
        digits = text if len(text) == 6 else "".join(2 * digit for digit in text)
        return np.array([int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)])

    light, _, dark = rendering._STYLE.partition("prefers-color-scheme:dark")
    shown = [colour(text[1:]) for text in pictures._COLOURS]
    if scheme == "dark":
        inverted = re.search(r"svg{filter:invert\((\.\d+)\) hue-rotate\(180deg\)}", dark)
        assert inverted is not None
        ratio, weights = float(inverted[1]), np.array([0.213, 0.715, 0.072])
        turned = 2 * np.tile(weights, (3, 1)) - np.eye(3)  # hue-rotate by half a turn, as the filter effects define it
        shown = [np.clip(turned @ (one * (1 - 2 * ratio) + ratio), 0, 1) for one in shown]
    background = re.search(r"background:#(\w+)", dark if scheme == "dark" else light)
    assert background is not None
    assert min(_contrast(one, colour(background[1])) for one in shown) >= 3
    assert min(np.linalg.norm(_lab(one) - _lab(other)) for one, other in combinations(shown, 2)) >= 30

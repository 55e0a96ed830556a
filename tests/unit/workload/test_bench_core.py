"""The benchmark of the core measures what it says."""

from argosy_workload import bench_core


def test_run_places_every_pod_that_fits_and_reports_each_phase() -> None:
    """A pool with room takes all pods; a full one takes as many as ended."""
    report = bench_core.run(nodes=40, pods=300)
    assert set(report) == {"identical", "all-different", "identical, full", "all-different, full", "ledger"}
    assert report["all-different"]["placed"] == 300
    assert 0 < report["identical"]["placed"] <= 300
    for case in ("identical, full", "all-different, full"):
        assert 0 < report[case]["placed"] <= 10 * 15
        assert {"placements_per_s", "round_ms", "sample_us", "decide_us", "commit_us"} < set(report[case])
    assert set(report["ledger"]) == {"commit_us", "observe_us", "end_us", "release_us"}
    assert all(value >= 0 for case in report.values() for value in case.values())

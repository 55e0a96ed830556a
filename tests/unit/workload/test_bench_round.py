"""The benchmark of whole rounds measures what it says."""

from argosy_workload.bench_round import GROWING, RoundLoad, run

PHASES = ("take", "begin", "sample", "decide", "commit", "finish", "ingest", "states", "release")


def test_run_keeps_the_pool_full_and_reports_each_part_of_a_round() -> None:
    """In each round as many jobs are leased as ended, however much else waits; the parts add up to the whole."""
    base = RoundLoad(jobs=60, nodes=20, queues=2, classes=3, arrivals=10)
    report = run(base, rounds=5)
    assert list(report) == ["base", *(f"{name} x10" for name in GROWING)]
    assert report["base"]["ratio"] == 1.0
    for case, figures in report.items():
        changed = {name: figures[name] / getattr(base, name) for name in (*GROWING, "arrivals")}
        assert changed == {name: 10.0 if case == f"{name} x10" else 1.0 for name in changed}
        assert 0 < figures["leased"] <= 20
        assert abs(sum(figures[f"{phase}_us"] for phase in PHASES) - figures["round_us"]) <= len(PHASES)
        assert figures["leased_us"] > 0
        assert figures["ratio"] > 0

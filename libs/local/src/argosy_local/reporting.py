"""Reports of replays and simulations: put together, written to files.

Source: design section 9; `argosy_workload.report`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_local.round_totals import Histogram, RoundTotals
from argosy_workload.pictures import can_draw, report_to_png, report_to_svg
from argosy_workload.rendering import report_to_html, report_to_json, report_to_text
from argosy_workload.report import CURVE_COUNT, Percentiles, Report

__all__ = ["REPORT_ENDINGS", "add_rounds", "check_report_path", "histogram_percentiles", "write_report"]

REPORT_ENDINGS: Final = (".html", ".json", ".png", ".svg", ".txt")
"""Endings of a report's file, which say its form."""
_PICTURES: Final = {".png", ".svg"}


def histogram_percentiles(histogram: Histogram) -> Percentiles | None:
    """Return a histogram as a distribution in milliseconds, None if it is empty."""
    if not histogram.count:
        return None
    curve = tuple(histogram.quantile_ms(float(level)) for level in np.linspace(0, 1, CURVE_COUNT))
    return Percentiles(
        count=histogram.count,
        mean=histogram.mean_ms(),
        p50=histogram.quantile_ms(0.5),
        p90=histogram.quantile_ms(0.9),
        p99=histogram.quantile_ms(0.99),
        max=curve[-1],
        curve=curve,
    )


def add_rounds(report: Report, rounds: RoundTotals) -> Report:
    """Return a replay's report with what only the leader knows: when jobs were considered, conflicts, retries."""
    considered = rounds.histograms.get("considered", Histogram())
    latency_ms = {**report.latency_ms, "considered": histogram_percentiles(considered)}
    counters: Mapping[str, int] = {**report.counters, **rounds.totals}
    return dataclasses.replace(report, latency_ms=latency_ms, counters=dict(counters))


def check_report_path(path: Path | None) -> None:
    """Do nothing if a report can be written to a path.

    Raises:
        InvalidRequest: Its ending says no form, or one that needs plots where none can be drawn; or its folder is not
            there.
    """
    if path is None:
        return
    if path.suffix not in REPORT_ENDINGS:
        raise InvalidRequest(f"--report {path}: the ending must be one of {', '.join(REPORT_ENDINGS)}")
    if path.suffix in _PICTURES and not can_draw():
        raise InvalidRequest(f"--report {path}: a picture needs argosy-workload[plots], which is not installed")
    if not path.absolute().parent.is_dir():
        raise InvalidRequest(f"--report {path}: there is no folder {path.absolute().parent}")


def write_report(reports: Sequence[Report], path: Path) -> None:
    """Write reports in the form their file's ending says; pictures show the last one."""
    last = reports[-1]
    if path.suffix == ".png":
        path.write_bytes(report_to_png(last))
        return
    if path.suffix == ".html":
        text = report_to_html(reports)
    elif path.suffix == ".svg":
        text = report_to_svg(last)
    elif path.suffix == ".txt":
        text = "\n".join(report_to_text(report) for report in reports)
    else:
        documents = [report_to_json(report).rstrip() for report in reports]
        text = documents[0] + "\n" if len(documents) == 1 else "[" + ",\n".join(documents) + "]\n"
    path.write_text(text, encoding="utf-8")

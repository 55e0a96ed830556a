"""Reports as text, JSON or one HTML page; the verdict stands first, what was left out second.

The HTML page is one file: styles and plots (SVG) are inside, nothing is loaded. Where no plot can be drawn it says so.
"""

from __future__ import annotations

import html
import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from argosy_core.resources import format_amount
from argosy_workload.pictures import RESOURCE_NAMES, can_draw, report_to_svg
from argosy_workload.report import Percentiles, QueueResult, Report, ScalingSeries
from argosy_workload.verdict import describe_duration, describe_verdict

__all__ = ["NO_PLOTS", "report_rows", "report_to_html", "report_to_json", "report_to_text"]

Row = tuple[str, str]
Row3 = tuple[str, str, str]

NO_PLOTS: Final = "There are no plots: argosy-workload[plots] is not installed."
"""What a page says where its plots would stand."""

_QUEUES_SHOWN: Final = 12
_TOLD_IN_TEXT: Final = 5
"""Of what happened, how many of a kind a text has."""
_TOLD_ON_PAGE: Final = 40
"""Likewise a page."""
_WHOLE_FROM: Final = 1000
_WIDTH: Final = 100
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.15rem 1.2rem .15rem 0;text-align:left;vertical-align:top}
th{font-weight:600;border-bottom:1px solid #bbb}td+td,th+th{font-variant-numeric:tabular-nums}
svg{max-width:100%;height:auto}.quiet{color:#595959}figure{margin:1rem 0}.columns-1{display:none}.wide{overflow-x:auto}
.verdict{font-size:1.1rem;margin:1rem 0}.verdict p{margin:.2rem 0}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}.quiet{color:#a8a8a8}
th{border-color:#555}svg{filter:invert(.91) hue-rotate(180deg)}}
@media(max-width:40rem){.columns-1{display:block}.columns-2{display:none}}
@media(max-width:30rem){body{margin:1rem auto;font-size:14px}td,th{padding-right:.7rem}}
"""


def report_to_json(report: Report) -> str:
    """Return the report as JSON; numbers that are not finite become null."""
    return json.dumps(_finite(report.to_builtins()), indent=1) + "\n"


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value without NaN and infinity, floats with six significant digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value


def report_rows(report: Report) -> dict[str, list[Row]]:
    """Return the figures as sections of (name, text) pairs, the one source of text and HTML."""
    real = report.clock == "real"
    run: list[Row] = [
        ("workload", report.source),
        ("nodes", f"{report.node_count:,} with {_capacity(report)}"),
        ("jobs", f"{report.job_count:,}: " + ", ".join(f"{count:,} {state}" for state, count in report.states.items())),
        (
            "time",
            f"{report.elapsed_s:,.1f} s {report.clock}"
            + (f" = {describe_duration(report.makespan_s)} of the trace" if real else ""),
        ),
        ("throughput", f"{report.throughput_per_s:,.4g} jobs/s ended"),
    ]
    if real:
        run.insert(4, ("speed", f"{report.speed:,.4g} trace seconds per real second"))
    sections = {"run": run}
    if real:
        sections["real milliseconds from submit to"] = [
            (stage, _percentiles(values, " ms")) for stage, values in report.latency_ms.items()
        ]
    sections["in trace time"] = [
        ("wait", _percentiles(report.wait_s, " s")),
        ("bounded slowdown (10 s)", _percentiles(report.bounded_slowdown, "")),
        *(
            (
                f"utilisation {RESOURCE_NAMES.get(name, name)}",
                f"{ratio:.1%}, {report.utilisation_loaded[name]:.1%} while jobs wait",
            )
            for name, ratio in report.utilisation.items()
        ),
    ]
    fairness = report.fairness
    sections["shares: received against entitled (weighted water-filling)"] = [
        ("Jain index", f"{fairness.jain_index:.4f} over the run, {fairness.jain_index_mean:.4f} mean of moments"),
        (
            "largest deviation",
            f"{fairness.largest_deviation_ratio:.2%} of all that was held",
        ),
        ("largest at one moment", f"{fairness.largest_moment_ratio:.2%} of the pool"),
        ("time with waiting work", f"{fairness.contended_ratio:.1%}"),
    ]
    if report.scaling is not None:
        sections["pods that are resized"] = _scaling_rows(report.scaling)
    sections["counted"] = [(name, f"{count:,}") for name, count in report.counters.items()]
    if report.settings:
        sections["settings"] = list(report.settings.items())
    return sections


def _scaling_rows(scaling: ScalingSeries) -> list[Row]:
    """Return what the plot of pods that are resized shows, as text."""
    rows = [
        (name, f"mean {sum(cores) / max(len(cores), 1):,.4g} cores, most {max(cores, default=0.0):,.4g}")
        for name, cores in (
            ("requested", scaling.requested),
            ("approved", scaling.approved),
            ("used", scaling.used),
        )
    ]
    rows.append(("short of what they would use", f"{scaling.short_ratio:.2%} of their time"))
    rows.append(("resizes", f"{scaling.resize_count:,}"))
    for name, pod in scaling.pods.items():
        low, high = min(pod.approved, default=0.0), max(pod.approved, default=0.0)
        used = sum(pod.used) / max(len(pod.used), 1)
        rows.append((f"pod {name}", f"approved {low:,.4g} to {high:,.4g} cores, used {used:,.4g} in the mean"))
    return rows


def _capacity(report: Report) -> str:
    """Return the pool's size for people."""
    parts = []
    for name, amount in report.capacity.items():
        if name == "cpu":
            parts.append(f"{amount / 1000:,.0f} cores")
        elif name == "memory":
            parts.append(f"{amount / 2**40:,.1f} TiB")
        elif name == "nvidia.com/gpu-milli":
            parts.append(f"{amount / 1000:,.0f} GPUs")
        elif name != "pods":
            parts.append(f"{format_amount(name, amount)} {name}")
    return ", ".join(parts)


def _percentiles(values: Percentiles | None, unit: str) -> str:
    """Return a distribution on one line."""
    if values is None:
        return "not known"
    figures = (
        ("p50", values.p50),
        ("p90", values.p90),
        ("p99", values.p99),
        ("max", values.max),
        ("mean", values.mean),
    )
    return ", ".join(f"{name} {_figure_text(value)}{unit}" for name, value in figures)


def _figure_text(value: float) -> str:
    """Return a number with four digits that count, or more, and never with an exponent of ten."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:,.4g}"


def _queue_table(report: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]], int]:
    """Return (header, rows, number of queues left out)."""
    first_come = {queue.name: queue for queue in report.first_come.queues} if report.first_come else {}
    header: tuple[str, ...] = ("queue", "weight", "jobs", "ended", "mean wait", "received", "entitled")
    if first_come:
        header += ("first come: wait", "received")
    rows: list[tuple[str, ...]] = [
        (
            queue.name,
            f"{queue.weight:g}",
            f"{queue.job_count:,}",
            f"{queue.finished_count:,}",
            _wait(queue),
            f"{queue.held_ratio:.2%}",
            f"{queue.ideal_ratio:.2%}",
            *((_wait(other), f"{other.held_ratio:.2%}") if (other := first_come.get(queue.name)) else ()),
        )
        for queue in report.queues[:_QUEUES_SHOWN]
    ]
    return header, rows, max(len(report.queues) - _QUEUES_SHOWN, 0)


def _wait(queue: QueueResult) -> str:
    """Return a queue's mean wait for people."""
    return "-" if queue.mean_wait_s is None else describe_duration(queue.mean_wait_s)


def report_to_text(report: Report) -> str:
    """Return the report as plain text for a terminal; sentences are wrapped at 100 columns."""
    lines = [report.title, "=" * min(len(report.title), _WIDTH), ""]
    for sentence in describe_verdict(report):
        lines += textwrap.wrap(sentence, _WIDTH)
    for section, rows in report_rows(report).items():
        lines += ["", section]
        width = max(len(name) for name, _ in rows)
        lines += [f"  {name:<{width}}  {text}" for name, text in rows]
    header, table, hidden = _queue_table(report)
    lines += ["", "queues", *_align([header, *table])]
    if hidden:
        lines.append(f"  ... and {hidden} more (all of them in the JSON report)")
    if report.happenings:
        lines += ["", "what happened, by trace time", *_align_left(_story_rows(report, _TOLD_IN_TEXT))]
    if report.notes:
        lines += ["", "notes"]
        for note in report.notes:
            lines += textwrap.wrap(note, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def _story_rows(report: Report, most: int) -> list[Row3]:
    """Return (moment, kind, text) of what happened, the first ones of each kind; what is left out is counted."""
    rows: list[Row3] = []
    counts: Counter[str] = Counter()
    for one in report.happenings:
        counts[one.kind] += 1
        if counts[one.kind] <= most:
            rows.append((f"{one.at_s:,.1f} s", one.kind, one.text))
    return rows + [("", kind, f"... and {count - most:,} more") for kind, count in counts.items() if count > most]


def _align_left(rows: Sequence[Row3]) -> list[str]:
    """Return rows of a moment, a kind and a text, in columns."""
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return [f"  {moment:>{widths[0]}}  {kind:<{widths[1]}}  {text}" for moment, kind, text in rows]


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows in columns, the first to the left and others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def report_to_html(reports: Report | Sequence[Report]) -> str:
    """Return one page with one or several reports, complete in itself; without plots where none can be drawn."""
    several = [reports] if isinstance(reports, Report) else list(reports)
    body = "".join(_html_of(report) for report in several)
    title = html.escape(several[0].title if len(several) == 1 else "Argosy reports")
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}<title>{title}</title>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>\n'


def _html_of(report: Report) -> str:
    """Return one report as HTML."""
    plots = f'<p class="quiet">{NO_PLOTS}</p>'
    if can_draw():
        said = html.escape(" ".join(_said(report)), quote=True)
        label = f'role="img" aria-label="Plots over time and of waits. {said}"'
        plots = "".join(
            f'<figure class="columns-{count}" {label}>{report_to_svg(report, column_count=count)}</figure>'
            for count in (2, 1)
        )
    verdict = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in describe_verdict(report))
    parts = [f'<h1>{html.escape(report.title)}</h1><div class="verdict">{verdict}</div>']
    if report.notes:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in report.notes)
        parts.append(f"<details open><summary>What must be known of these figures</summary><ul>{notes}</ul></details>")
    parts.append(plots)
    for section, rows in report_rows(report).items():
        parts.append(f"<h2>{html.escape(section.capitalize())}</h2>{_html_table((), rows)}")
    header, table, hidden = _queue_table(report)
    parts.append(f"<h2>Queues</h2>{_html_table(header, table)}")
    if hidden:
        parts.append(f'<p class="quiet">... and {hidden} more (all of them in the JSON report)</p>')
    if report.happenings:
        told = _html_table(("trace time", "", "what"), _story_rows(report, _TOLD_ON_PAGE))
        parts.append(f"<h2>What happened</h2>{told}")
    return "".join(parts)


def _said(report: Report) -> list[str]:
    """Return what the plots show, for whoever does not see them."""
    said = list(describe_verdict(report))
    if report.scaling is not None:
        said.append(
            "Pods that are resized: " + "; ".join(f"{name}: {text}" for name, text in _scaling_rows(report.scaling))
        )
    return said


def _html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in header) + "</tr>" if header else ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table>{head}{body}</table></div>'

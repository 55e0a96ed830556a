"""Reports as text, JSON, one HTML page, or a picture.

The HTML page is one file: styles and plots (SVG) are inside, nothing is loaded. Matplotlib is imported only when a plot
is drawn; it comes with the extra `plots`, and without it there are no pictures.
"""

from __future__ import annotations

import html
import importlib.util
import io
import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from argosy_core.resources import format_amount
from argosy_workload.report import Percentiles, Report

__all__ = [
    "NO_PLOTS",
    "can_draw",
    "report_rows",
    "report_to_html",
    "report_to_json",
    "report_to_png",
    "report_to_svg",
    "report_to_text",
]

Row = tuple[str, str]

NO_PLOTS: Final = "There are no plots: argosy-workload[plots] is not installed."
"""What a page says where its plots would stand."""

_QUEUES_SHOWN: Final = 12
_WIDTH: Final = 100
_RESOURCE_NAMES: Final = {"cpu": "cpu", "memory": "memory", "nvidia.com/gpu-milli": "gpu"}
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.15rem 1.2rem .15rem 0;text-align:left;vertical-align:top}
th{font-weight:600;border-bottom:1px solid #bbb}td+td,th+th{font-variant-numeric:tabular-nums}
svg{max-width:100%;height:auto}.quiet{color:#595959}
"""


def can_draw() -> bool:
    """Return whether plots can be drawn here."""
    return importlib.util.find_spec("matplotlib") is not None


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
            + (f" = {_duration(report.makespan_s)} of the trace" if real else ""),
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
                f"utilisation {_RESOURCE_NAMES.get(name, name)}",
                f"{ratio:.1%}, {report.utilisation_loaded[name]:.1%} while jobs wait",
            )
            for name, ratio in report.utilisation.items()
        ),
    ]
    fairness = report.fairness
    sections["fairness against weighted water-filling"] = [
        ("Jain index", f"{fairness.jain_index:.4f} over the run, {fairness.jain_index_mean:.4f} mean of moments"),
        (
            "largest deviation",
            f"{fairness.largest_deviation_ratio:.2%} of all that was held",
        ),
        ("largest at one moment", f"{fairness.largest_moment_ratio:.2%} of the pool"),
        ("time with waiting work", f"{fairness.contended_ratio:.1%}"),
    ]
    sections["counted"] = [(name, f"{count:,}") for name, count in report.counters.items()]
    if report.settings:
        sections["settings"] = list(report.settings.items())
    return sections


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


def _duration(seconds: float) -> str:
    """Return a time for people."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s"


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
    return "  ".join(f"{name} {value:,.4g}{unit}" for name, value in figures)


def _queue_table(report: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]], int]:
    """Return (header, rows, number of queues left out)."""
    header = ("queue", "weight", "jobs", "ended", "mean wait", "held", "ideal")
    rows: list[tuple[str, ...]] = [
        (
            queue.name,
            f"{queue.weight:g}",
            f"{queue.job_count:,}",
            f"{queue.finished_count:,}",
            "-" if queue.mean_wait_s is None else f"{queue.mean_wait_s:,.4g} s",
            f"{queue.held_ratio:.2%}",
            f"{queue.ideal_ratio:.2%}",
        )
        for queue in report.queues[:_QUEUES_SHOWN]
    ]
    return header, rows, max(len(report.queues) - _QUEUES_SHOWN, 0)


def report_to_text(report: Report) -> str:
    """Return the report as plain text for a terminal; notes are wrapped at 100 columns."""
    lines = [report.title, "=" * min(len(report.title), _WIDTH)]
    for section, rows in report_rows(report).items():
        lines += ["", section]
        width = max(len(name) for name, _ in rows)
        lines += [f"  {name:<{width}}  {text}" for name, text in rows]
    header, table, hidden = _queue_table(report)
    lines += ["", "queues", *_align([header, *table])]
    if hidden:
        lines.append(f"  ... and {hidden} more (all of them in the JSON report)")
    if report.notes:
        lines += ["", "notes"]
        for note in report.notes:
            lines += textwrap.wrap(note, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


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
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>\n'


def _html_of(report: Report) -> str:
    """Return one report as HTML."""
    plots = report_to_svg(report) if can_draw() else f'<p class="quiet">{NO_PLOTS}</p>'
    parts = [f"<h1>{html.escape(report.title)}</h1>", plots]
    for section, rows in report_rows(report).items():
        parts.append(f"<h2>{html.escape(section.capitalize())}</h2>{_html_table((), rows)}")
    header, table, hidden = _queue_table(report)
    parts.append(f"<h2>Queues</h2>{_html_table(header, table)}")
    if hidden:
        parts.append(f'<p class="quiet">... and {hidden} more (all of them in the JSON report)</p>')
    if report.notes:
        parts.append("<h2>Notes</h2><ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in report.notes) + "</ul>")
    return "".join(parts)


def _html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table."""
    head = "<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in header) + "</tr>" if header else ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{head}{body}</table>"


def report_to_svg(report: Report) -> str:
    """Return the plots as one SVG element; the same report gives the same text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "argosy", "svg.fonttype": "none"}):
        figure = _figure(report)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    return text[text.index("<svg") :]


def report_to_png(report: Report) -> bytes:
    """Return the plots as a PNG picture."""
    figure = _figure(report)
    figure.suptitle(report.title, x=0.01, ha="left", fontsize=11)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    return target.getvalue()


def _figure(report: Report) -> Any:  # noqa: ANN401 - matplotlib is not imported at module level
    """Return a figure with four plots: utilisation, jobs, queues, distribution of latencies or waits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained", dpi=110)
    axes = figure.subplots(2, 2)
    unit, length = next(
        ((u, s) for u, s in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)) if report.makespan_s >= 3 * s),
        ("seconds", 1.0),
    )
    edges = report.series.edges_s
    middles = [(low + high) / 2 / length for low, high in pairwise(edges)]
    _plot_lines(
        axes[0, 0],
        middles,
        {_RESOURCE_NAMES.get(name, name): values for name, values in report.series.utilisation.items()},
    )
    axes[0, 0].set(title="utilisation", ylabel="ratio of the pool", ylim=(0, 1.02))
    _plot_lines(axes[0, 1], middles, {"waiting": report.series.waiting, "running": report.series.running})
    axes[0, 1].set(title="jobs", ylabel="jobs")
    _plot_lines(axes[1, 0], middles, report.series.held)
    for number, values in enumerate(report.series.ideal.values()):
        axes[1, 0].plot(middles, values, color=_COLOURS[number % len(_COLOURS)], linestyle=":", linewidth=1)
    axes[1, 0].set(title="queues: held (line) and ideal (dotted)", ylabel="ratio of the pool")
    axes[1, 0].set_ylim(bottom=0)
    for axis in (axes[0, 0], axes[0, 1], axes[1, 0]):
        axis.set_xlabel(f"trace time, {unit}")
    _plot_distributions(axes[1, 1], report)
    return figure


def _plot_lines(axis: Any, x: Sequence[float], lines: dict[str, tuple[float, ...]]) -> None:  # noqa: ANN401
    """Draw named lines with a legend."""
    for number, (name, values) in enumerate(lines.items()):
        axis.plot(x, values, label=name, color=_COLOURS[number % len(_COLOURS)], linewidth=1.4)
    axis.grid(visible=True, alpha=0.25)
    if lines:
        axis.legend(fontsize=8, frameon=False)


def _plot_distributions(axis: Any, report: Report) -> None:  # noqa: ANN401
    """Draw the cumulative distributions of the latencies, or of the wait where there are none."""
    known = {stage: values for stage, values in report.latency_ms.items() if values is not None}
    unit, floor = "real milliseconds", 0.1
    if not known:
        known = {"wait": report.wait_s} if report.wait_s is not None else {}
        unit, floor = "trace seconds", 1.0
    for number, (name, values) in enumerate(known.items()):
        levels = [i / (len(values.curve) - 1) for i in range(len(values.curve))]
        curve = [max(value, floor) for value in values.curve]
        axis.plot(curve, levels, label=name, color=_COLOURS[number % len(_COLOURS)], linewidth=1.4)
    axis.set(
        title="share of jobs within",
        xlabel=f"{unit} since submit",
        ylabel="ratio of jobs",
        xscale="log",
        ylim=(0, 1.02),
    )
    axis.grid(visible=True, alpha=0.25)
    if known:
        axis.legend(fontsize=8, frameon=False)

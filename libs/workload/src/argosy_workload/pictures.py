"""The plots of a report: utilisation, jobs, what the queues held, and how long their jobs waited.

Matplotlib is imported only when a plot is drawn; it comes with the extra `plots`.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from argosy_workload.report import Percentiles, Report, ScalingSeries, Series
from argosy_workload.story import LANE_COUNT, STEP_COUNT, Happening, NodeMap

__all__ = ["RESOURCE_NAMES", "can_draw", "report_to_png", "report_to_svg"]

RESOURCE_NAMES: Final = {"cpu": "cpu", "memory": "memory", "nvidia.com/gpu-milli": "gpu"}
"""Short names of resources that have a long one."""
_PLOT_WIDTH: Final = 5.5
"""Width of a plot, inches."""
_NODES_HEIGHT: Final = 6
"""Height of the picture of the nodes, inches."""
_GANG_SHADE: Final = 0.6
_MARKS: Final = {
    "promised": ("promised start, at the latest", "|", 9),
    "late": ("promised start that was missed", "d", 5),
    "preempted": ("preempted", "x", 5),
    "lost": ("node lost", "X", 10),
}
"""How happenings on a node are drawn: label, marker, size."""
_COLOURS: Final = ("#0072b2", "#d55e00", "#00916a", "#c2599a", "#8a6d00", "#7a4fc9")
"""Of queues: each stands out from a light page, and from a dark one, which turns the colours of pictures round."""


def can_draw() -> bool:
    """Return whether plots can be drawn here."""
    return importlib.util.find_spec("matplotlib") is not None


def report_to_svg(report: Report, *, column_count: int = 2) -> str:
    """Return the plots as one SVG element; the same report gives the same text.

    Args:
        report: The report.
        column_count: Plots side by side: 2, or 1 for narrow screens.
    """
    import matplotlib as mpl

    # The names within a picture are its own, as two of them stand on a page.
    with mpl.rc_context({"svg.hashsalt": f"argosy-{column_count}", "svg.fonttype": "none"}):
        figure = _figure(report, column_count)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    return text[text.index("<svg") :]


def report_to_png(report: Report) -> bytes:
    """Return the plots as a PNG picture."""
    figure = _figure(report, 2)
    figure.suptitle(report.title, x=0.01, ha="left", fontsize=11)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    return target.getvalue()


def _figure(report: Report, column_count: int) -> Any:  # noqa: ANN401 - matplotlib is not imported at module level
    """Return a figure: utilisation, jobs, queues, waits; and what first come, first served does, if it is known."""
    from matplotlib.figure import Figure

    other, nodes, scaling = report.first_come, report.node_map, report.scaling
    height, rows = (7.0, 2) if other is None else (10.0, 3)
    plot_count = 2 * (rows + (scaling is not None))
    heights = [height / rows] * (plot_count // column_count) + ([] if nodes is None else [float(_NODES_HEIGHT)])
    figure = Figure(figsize=(_PLOT_WIDTH * column_count, sum(heights)), layout="constrained", dpi=110)
    grid = figure.add_gridspec(len(heights), column_count, height_ratios=heights)
    places = [grid[divmod(number, column_count)] for number in range(plot_count)]
    axes = [figure.add_subplot(place) for place in places[: 2 * rows]]
    unit, length = next(
        ((u, s) for u, s in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)) if report.makespan_s >= 3 * s),
        ("seconds", 1.0),
    )
    middles = _middles(report.series, length)
    _plot_lines(
        axes[0],
        middles,
        {RESOURCE_NAMES.get(name, name): values for name, values in report.series.utilisation.items()},
    )
    axes[0].set(title="utilisation", ylabel="part of the pool", ylim=(0, 1.02))
    axes[0].yaxis.set_major_formatter(_percent)
    _plot_lines(axes[1], middles, {"waiting": report.series.waiting, "running": report.series.running})
    axes[1].set(title="jobs", ylabel="jobs")
    axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    _plot_queues(axes[2], report.series, length, title="queues: held (line) and entitled (dotted)")
    timed = [axes[0], axes[1], axes[2]]
    if other is None:
        _plot_distributions(axes[3], report)
    else:
        _plot_queues(axes[3], other.series, length, title="the same, first come first served")
        waits = {queue.name: queue.wait_s for queue in report.queues[: len(_COLOURS)]}
        _plot_waits(axes[4], waits, title="share of jobs running within")
        first = {queue.name: queue.wait_s for queue in other.queues[: len(_COLOURS)]}
        _plot_waits(axes[5], first, title="the same, first come first served")
        timed.append(axes[3])
        _share_limits(axes[2], axes[3])
        _share_limits(axes[4], axes[5])
    if scaling is not None:
        parts = [figure.add_subplot(place) for place in places[2 * rows :]]
        _plot_scaling(parts[0], parts[1], scaling, length)
        timed += parts
    if nodes is not None:
        timed.append(figure.add_subplot(grid[len(heights) - 1, :]))
        _draw_nodes(timed[-1], nodes, report.happenings, length, legend_column_count=2 * column_count)
    for axis in timed:
        axis.set_xlabel(f"trace time, {unit}")
    return figure


def _plot_scaling(total: Any, few: Any, scaling: ScalingSeries, length_s: float) -> None:  # noqa: ANN401
    """Draw what pods that are resized asked for, were permitted and used: all of them, and a few."""
    moments = [at_s / length_s for at_s in scaling.at_s]
    lines = {"requested": scaling.requested, "approved": scaling.approved, "used": scaling.used}
    _plot_lines(total, moments, lines)
    total.set(title="pods that are resized, all", ylabel="cores")
    total.set_ylim(bottom=0)
    for number, (name, pod) in enumerate(scaling.pods.items()):
        colour, moments = _COLOURS[number % len(_COLOURS)], [at_s / length_s for at_s in pod.at_s]
        few.step(moments, pod.approved, where="post", label=name, color=colour, linewidth=1.4)
        few.step(moments, pod.requested, where="post", color=colour, linewidth=1, linestyle="--")
        few.plot(moments, pod.used, color=colour, linewidth=1, linestyle=":")
    few.set(title="a few: approved (line), requested (dashed), used (dotted)", ylabel="cores")
    few.set_ylim(bottom=0)
    few.grid(visible=True, alpha=0.25)
    if scaling.pods:
        few.legend(fontsize=8, frameon=False)


def _draw_nodes(
    axis: Any,  # noqa: ANN401
    nodes: NodeMap,
    happenings: Sequence[Happening],
    length_s: float,
    *,
    legend_column_count: int,
) -> None:
    """Draw what ran on each node, in the colours of the queues, gangs shaded; promises, preemptions and lost nodes."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    colours = np.ones((len(nodes.queues) + 1, 3))
    order = sorted(range(len(nodes.queues)), key=nodes.queues.__getitem__)
    for number, index in enumerate(order):
        colours[index + 1] = to_rgb(_COLOURS[number % len(_COLOURS)])
    cells, gangs = (
        np.frombuffer(part, dtype=np.uint8).reshape(len(nodes.nodes) * LANE_COUNT, STEP_COUNT)
        for part in (nodes.cells, nodes.gangs)
    )
    picture = colours[cells] * np.where(gangs == 1, _GANG_SHADE, 1.0)[:, :, None]
    end, row = nodes.end_s / length_s, {name: number + 0.5 for number, name in enumerate(nodes.nodes)}
    axis.imshow(picture, extent=(0, end, len(nodes.nodes), 0), aspect="auto", interpolation="nearest")
    for kind, (label, marker, size) in _MARKS.items():
        told = [one for one in happenings if one.kind == kind and one.node in row]
        for one in told:
            if one.until_s is not None:
                axis.plot(
                    [one.at_s / length_s, min(one.until_s / length_s, end)], [row[one.node]] * 2, "k:", linewidth=1
                )
        moments = [(one.at_s if one.until_s is None else one.until_s) / length_s for one in told]
        if told:
            axis.plot(moments, [row[one.node] for one in told], f"k{marker}", markersize=size, label=label)
    axis.set(ylabel="node", xlim=(0, end))
    handles, labels = axis.get_legend_handles_labels()
    swatches = [Patch(color=tuple(colours[index + 1])) for index in order]
    lines = -(-(len(handles) + len(swatches)) // legend_column_count)
    axis.set_title("what ran on each node, by queue; gangs are shaded", pad=8 + 13 * lines)
    # Above the picture, in which it would hide what ran.
    axis.legend(
        [*swatches, *handles],
        [*(nodes.queues[index] for index in order), *labels],
        fontsize=8,
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        borderaxespad=0.2,
        ncols=legend_column_count,
    )


def _percent(ratio: float, _position: object) -> str:
    """Return the text of a tick."""
    return f"{100 * ratio:.4g}%"


def _middles(series: Series, length_s: float) -> list[float]:
    """Return the middles of the intervals in a unit of so many seconds."""
    return [(low + high) / 2 / length_s for low, high in pairwise(series.edges_s)]


def _share_limits(*axes: Any) -> None:  # noqa: ANN401
    """Give axes that are to be compared the same limits."""
    for name in ("xlim", "ylim"):
        limits = [getattr(axis, f"get_{name}")() for axis in axes]
        for axis in axes:
            axis.set(**{name: (min(low for low, _ in limits), max(high for _, high in limits))})


def _plot_lines(axis: Any, x: Sequence[float], lines: dict[str, tuple[float, ...]]) -> None:  # noqa: ANN401
    """Draw named lines with a legend."""
    for number, (name, values) in enumerate(lines.items()):
        axis.plot(x, values, label=name, color=_COLOURS[number % len(_COLOURS)], linewidth=1.4)
    axis.grid(visible=True, alpha=0.25)
    if lines:
        axis.legend(fontsize=8, frameon=False)


def _plot_queues(axis: Any, series: Series, length_s: float, *, title: str) -> None:  # noqa: ANN401
    """Draw what each queue held, in alphabetical order so that colours agree, and dotted what it was entitled to."""
    middles = _middles(series, length_s)
    _plot_lines(axis, middles, {name: series.held[name] for name in sorted(series.held)})
    for number, name in enumerate(sorted(series.ideal)):
        axis.plot(middles, series.ideal[name], color=_COLOURS[number % len(_COLOURS)], linestyle=":", linewidth=1)
    axis.set(title=title, ylabel="part of the pool")
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(_percent)


def _plot_distributions(axis: Any, report: Report) -> None:  # noqa: ANN401
    """Draw the cumulative distributions of the latencies, or of the wait where there are none."""
    known = {stage: values for stage, values in report.latency_ms.items() if values is not None}
    if not known:
        _plot_waits(axis, {"wait": report.wait_s}, title="share of jobs running within")
        return
    for number, (name, values) in enumerate(known.items()):
        _plot_distribution(axis, values, name, number)
    _label_distributions(axis, "share of jobs within", "real milliseconds since submit", linear_to=1.0)


def _plot_waits(axis: Any, waits: dict[str, Percentiles | None], *, title: str) -> None:  # noqa: ANN401
    """Draw the cumulative distributions of waits, in alphabetical order so that colours agree."""
    for number, (name, values) in enumerate(sorted(waits.items())):
        if values is not None:
            _plot_distribution(axis, values, name, number)
    _label_distributions(axis, title, "trace seconds since submit", linear_to=1.0)


def _plot_distribution(axis: Any, values: Percentiles, name: str, number: int) -> None:  # noqa: ANN401
    """Draw one cumulative distribution: no value is moved, those of no time at all stand at 0."""
    levels = [i / (len(values.curve) - 1) for i in range(len(values.curve))]
    axis.plot(values.curve, levels, label=name, color=_COLOURS[number % len(_COLOURS)], linewidth=1.4)


def _label_distributions(axis: Any, title: str, unit: str, *, linear_to: float) -> None:  # noqa: ANN401
    """Finish an axis of distributions: logarithmic, and linear between 0 and a value."""
    axis.set_xscale("symlog", linthresh=linear_to)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axis.yaxis.set_major_formatter(_percent)
    axis.set(title=title, xlabel=unit, ylabel="part of the jobs", ylim=(0, 1.02))
    axis.set_xlim(left=0)
    axis.grid(visible=True, alpha=0.25)
    if axis.lines:
        axis.legend(fontsize=8, frameon=False)

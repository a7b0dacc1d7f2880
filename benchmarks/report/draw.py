# SPDX-License-Identifier: MIT
"""Charts as SVG files; the only module that needs matplotlib.

The background is white, so that a page in dark mode shows them too. The same figures give the same bytes: no date, no random ids.
"""

import importlib.util
import io
import re

from .charts import LIMIT
from .providers import PROVIDERS, STROBE

INK, GRID = "#222222", "#e3e3e3"


def available():
    return importlib.util.find_spec("matplotlib") is not None


def _length(x, _=None):
    return f"{x / 1024:g}k" if x >= 1024 else f"{x:g}"


def _short(y, _=None):
    return f"{y / 1e6:g}M" if y >= 1e6 else f"{y / 1e3:g}k" if y >= 1e4 else f"{y:g}"


def style(pyplot):
    pyplot.rcdefaults()
    pyplot.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "strobe",
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "font.size": 9,
            "axes.titlesize": 9.5,
            "axes.titleweight": "bold",
            "axes.edgecolor": "#999999",
            "axes.labelcolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": GRID,
            "grid.linewidth": 0.7,
            "axes.axisbelow": True,
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.bottom": False,
            "ytick.left": False,
            "text.color": INK,
            "figure.facecolor": "white",
            "axes.facecolor": "white",
            "legend.frameon": False,
        }
    )


def draw(chart, path):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    style(pyplot)
    (_draw_intervals if chart.lines else _draw_lines)(pyplot, chart)
    save(pyplot, path)


def save(pyplot, path):
    """The current figure as a small SVG file that depends on nothing but what is drawn."""
    text = io.StringIO()
    pyplot.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    pyplot.close("all")
    # Hundredths of a point are enough, and nobody reads the comments and the indentation.
    small = re.sub(r"(?m)^\s+|<!--.*?-->\n?", "", text.getvalue())
    path.write_text(re.sub(r"(\d\.\d\d)\d+", r"\1", small), encoding="utf-8")


def _draw_lines(pyplot, chart):
    from matplotlib import ticker

    rows = -(-len(chart.panels) // chart.columns)
    figure, axes = pyplot.subplots(
        rows,
        chart.columns,
        figsize=(min(3.3 * chart.columns + 0.6, 10.5), 2.35 * rows + 0.9),
        squeeze=False,
        sharex=True,
        sharey=not chart.log_y,
        layout="constrained",
    )
    handles = {}
    for i, (axis, panel) in enumerate(zip(axes.flat, chart.panels)):
        for series in panel.series:
            (line,) = axis.plot(
                *zip(*series.points),
                color=series.color,
                marker=series.marker,
                label=series.label,
                linestyle="--" if series.dashed else "-",
                linewidth=2.2 if series.bold else 1.3,
                markersize=5 if series.bold else 4,
                markeredgecolor="white",
                markeredgewidth=0.5,
                zorder=4 if series.bold else 3 if series.dashed else 2,
            )
            handles.setdefault(series.label, line)
        for x, y, text in panel.texts:
            axis.annotate(
                text,
                (x, y),
                xytext=(-7, 0),
                textcoords="offset points",
                fontsize=8,
                ha="right",
                va="center",
                color=PROVIDERS[STROBE].color,
            )
        axis.set_title(panel.title, loc="left")
        axis.tick_params(labelbottom=i + chart.columns >= len(chart.panels))
        axis.set_xscale("log", base=2)
        ticks = sorted({x for panel in chart.panels for series in panel.series for x, _ in series.points})
        axis.set_xticks(ticks)
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(_length))
        axis.xaxis.set_minor_locator(ticker.NullLocator())
        if panel.texts:  # room for them, left of the lines
            axis.set_xlim(left=ticks[0] / 5)
        if chart.log_y:
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 3)))
            axis.yaxis.set_major_formatter(ticker.FuncFormatter(_short))
            axis.yaxis.set_minor_locator(ticker.NullLocator())
        else:
            # Axes are shared, and setting one end alone would keep the other for the panels so far.
            axis.set_ylim(0, 1.05 * max(y for panel in chart.panels for series in panel.series for _, y in series.points))
    for axis in axes.flat[len(chart.panels) :]:
        axis.set_visible(False)
    figure.supxlabel(chart.x, fontsize=9)
    figure.supylabel(chart.y, fontsize=9)
    order = sorted(handles, key=lambda label: (label != PROVIDERS[STROBE].label, handles[label].get_linestyle() == "--"))
    figure.legend(
        [handles[label] for label in order],
        order,
        loc="outside upper left",
        ncols=len(order),
        columnspacing=1.4,
        handlelength=1.8,
    )


def _draw_intervals(pyplot, chart):
    from matplotlib import ticker

    figure, axis = pyplot.subplots(figsize=(9, 0.34 * len(chart.lines) + 1.3), layout="constrained")
    series = chart.panels[0].series
    for one in series:
        places = []
        for x, i, low, high in one.points:
            here = [other for other in series if any(point[1] == i for point in other.points)]  # side by side on their line
            places.append((x, i + (here.index(one) - (len(here) - 1) / 2) * min(0.17, 0.75 / len(here))))
            axis.plot([low, high], [places[-1][1]] * 2, color=one.color, linewidth=1.6, alpha=0.45, solid_capstyle="round")
        style = {"color": one.color, "marker": one.marker, "linestyle": "", "markersize": 6}
        axis.plot(*zip(*places), **style, markeredgecolor="white", markeredgewidth=0.5, label=one.label)
    for i in range(1, len(chart.lines)):
        axis.axhline(i - 0.5, color=GRID, linewidth=0.7)
    axis.axvline(1, color=LIMIT, linewidth=1.2)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    axis.set_xticks([x for x in (0.25, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 16) if low <= x <= high])
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.set_yticks(range(len(chart.lines)), chart.lines)
    axis.set_ylim(len(chart.lines) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel(chart.x)
    figure.legend(loc="outside upper right", ncols=len(series), columnspacing=1.4, handletextpad=0.3)


def draw_all(charts, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        draw(chart, folder / chart.file)

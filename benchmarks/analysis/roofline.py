# SPDX-License-Identifier: MIT
"""docs/images/roofline.svg: a roofline, and how busy each unit is."""

from report import draw as style

from . import model, page
from .model import UNITS

COLORS = ("#0b62a4", "#d1495b", "#2a9d6f", "#e08e0b", "#7b4fa3", "#1fa2b8", "#8c564b", "#555555")
MARKERS = "osD^vPXh"


def _roofline(axis, shapes):
    points = []  # (shape's number, FLOP per byte, TFLOP/s, filled)
    for i, shape in enumerate(shapes):
        time = shape.time.get("median_us")
        if not time:
            continue
        speed = shape.work.visible_flop / time / 1e6
        read, written = (shape.counters.get(f"dram__bytes_{way}.sum") for way in ("read", "write"))
        hbm = read + written if read is not None and written is not None else shape.work.hbm
        l2 = shape.counters.get("lts__t_bytes.sum") or shape.work.l2
        points += [(i, shape.work.visible_flop / hbm, speed, True), (i, shape.work.visible_flop / l2, speed, False)]
    if points:
        low, high = min(point[1] for point in points) / 2, max(point[1] for point in points) * 3
    else:
        low, high = 1, 1e4
    first = shapes[0].ceilings
    flat = []
    for by in page.products_of(shapes):
        ceiling = model.ceilings(shapes[0].run, shapes[0].stored, by)["tensor"]
        if ceiling.rate:
            flat.append((ceiling.rate / 1e6, f"tensor pipe, {by} ({ceiling.label})"))
    if first["fma"].rate:
        flat.append((2 * first["fma"].rate / 1e6, f"FMA pipe ({first['fma'].label})"))
    for dim in sorted({shape.case.head_dim for shape in shapes if shape.case.kind == "prefill"}):
        flat.append((4 * dim * first["mufu"].rate / 1e6, f"MUFU at D {dim} ({first['mufu'].label})"))
    for speed, text in flat:
        axis.axhline(speed, color="#999999", linewidth=1, linestyle="--")
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.5}
        axis.annotate(text, (high, speed), xytext=(-2, 3), textcoords="offset points", ha="right", fontsize=7, bbox=behind)
    top = max([speed for speed, _ in flat] + [point[2] for point in points] + [1])
    for unit, line in (("hbm", "-"), ("l2", ":")):
        ceiling = first[unit]
        if ceiling.rate:
            terabytes = ceiling.rate / 1e6  # a second, and TFLOP/s at one FLOP a byte
            ends = [low, max(min(high, top / terabytes), low)]
            label = f"{UNITS[unit]}, {terabytes:.1f} TB/s ({ceiling.label})"
            axis.plot(ends, [x * terabytes for x in ends], color="#444444", linewidth=1.2, linestyle=line, label=label)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="lower right", fontsize=7)
    for i, x, y, filled in points:
        axis.plot([x], [y], linestyle="", markersize=7, **_look(i, filled), zorder=4)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(low, high)
    axis.set_xlabel("visible FLOP per byte")
    axis.set_ylabel("TFLOP/s")
    axis.set_title("Roofline", loc="left")


def _look(i, filled):
    color = COLORS[i % len(COLORS)]
    marker = {"marker": MARKERS[i % len(MARKERS)], "markerfacecolor": color if filled else "none"}
    return {"color": color, "markeredgecolor": color, **marker}


def _units(axis, shapes, numbers, title):
    units = list(UNITS)
    for place, i in enumerate(numbers):
        shift = (place - (len(numbers) - 1) / 2) * 0.7 / max(len(numbers), 1)
        for shares, filled in ((shapes[i].model, False), (shapes[i].busy, True)):
            known = [(100 * shares[unit], y + shift) for y, unit in enumerate(units) if shares[unit] is not None]
            if known:
                axis.plot(*zip(*known), linestyle="", markersize=5, **_look(i, filled))
    axis.axvline(100 * page.SATURATED, color="#444444", linewidth=1, linestyle="--")
    for y in range(1, len(units)):
        axis.axhline(y - 0.5, color=style.GRID, linewidth=0.7)
    axis.set_yticks(range(len(units)), list(UNITS.values()))
    axis.set_ylim(len(units) - 0.5, -0.5)
    axis.set_xlim(left=0)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("% busy: filled counter, hollow model")
    axis.set_title(title, loc="left")


def draw(run, path):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    style.style(pyplot)
    shapes = page.shapes_of(run)
    kernels = [kernel for kernel in page.KERNELS if any(shape.case.kind == kernel for shape in shapes)]
    figure, axes = pyplot.subplots(
        1, 1 + len(kernels), figsize=(12.5, 5.2), layout="constrained", squeeze=False, width_ratios=[1.5] + [1] * len(kernels)
    )
    _roofline(axes[0][0], shapes)
    for axis, kernel in zip(axes[0][1:], kernels):
        numbers = [i for i, shape in enumerate(shapes) if shape.case.kind == kernel]
        _units(axis, shapes, numbers, page.KERNELS[kernel])
    handles = [Line2D([], [], linestyle="", markersize=6, **_look(i, True)) for i in range(len(shapes))]
    labels = [f"{page.KERNELS[shape.case.kind]}: {shape.name}" for shape in shapes]
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, columnspacing=1.4)
    style.save(pyplot, path)

# SPDX-License-Identifier: MIT
"""Do the peers run here as fast as somebody else found? Compares peers and floors with a stored reference of the same GPU."""

import collections
from statistics import geometric_mean, median

from . import cases
from .providers import FLOOR, PROVIDERS, STROBE, label
from .read import InputError
from .tables import link, microseconds, rate, table

TOLERANCE = 0.05
WITHIN = f"within {100 * TOLERANCE:.0f} %"
# Cells that one launch is fitted to: title, grid, peers.
GROUPS = (
    ("prefill, 16k tokens", "prefill", ("fa2", "cudnn")),
    ("prefill, 12 heads", "twelve-heads", ("fa2", "cudnn")),
    ("masks and scores", "variants", ("flex",)),
    ("decode", "decode", ("fa2", "cudnn")),
)
# us: the time here; ratio: of times, measured / reference
Cell = collections.namedtuple("Cell", "case provider unit reference measured us ratio")


def cells(results, reference, path):
    if results.context["gpu"] != reference.context["gpu"]:
        raise InputError(
            path, "context", "gpu", f"{reference.context['gpu']!r}, but the result is from {results.context['gpu']!r}"
        )
    found = []
    for row in reference.rows:
        case, provider = cases.parse(row["name"]), row["provider"]
        if provider == STROBE:
            continue
        if provider == FLOOR:
            floor = results.floor_us(case)
            measured = floor and {"median_us": floor}
        else:
            measured = results.get(case, provider)
        if not measured:
            continue
        unit = "median_us" if "median_us" in row else case.metric
        a, b = measured[unit], row[unit]
        found.append(Cell(case, provider, unit, b, a, measured["median_us"], a / b if unit == "median_us" else b / a))
    return sorted(found, key=lambda cell: (cell.case.order, cell.provider))


def _distance(cell):
    return max(cell.ratio, 1 / cell.ratio) - 1


def _within(some):
    return sum(_distance(cell) <= TOLERANCE for cell in some)


def between(found, again):
    """(cells in both lists, those whose reference lies between the two times, or within the tolerance of one)"""
    ratios = {(cell.case.name, cell.provider): cell.ratio for cell in again}
    both = [(cell.ratio, ratios[key]) for cell in found if (key := (cell.case.name, cell.provider)) in ratios]
    return len(both), sum(min(pair) <= 1 + TOLERANCE and max(pair) >= 1 / (1 + TOLERANCE) for pair in both)


def tables(found):
    """(one line a provider, the cells outside the tolerance)"""
    lines = []
    providers = [p for p in (*PROVIDERS, FLOOR) if any(cell.provider == p for cell in found)]
    for name, some in (*((label(p), [cell for cell in found if cell.provider == p]) for p in providers), ("all", found)):
        worst = max(some, key=_distance)
        lines.append(
            [
                name,
                len(some),
                _within(some),
                f"{geometric_mean(cell.ratio for cell in some):.3f}",
                link(worst.case, f"{worst.ratio:.3f}"),
            ]
        )
    show = lambda cell, x: f"{microseconds(x)} us" if cell.unit == "median_us" else f"{rate(x)} TFLOP/s"
    outside = [
        [
            link(cell.case, f"`{cell.case.name}`"),
            label(cell.provider),
            show(cell, cell.reference),
            show(cell, cell.measured),
            f"{cell.ratio:.3f}",
        ]
        for cell in found
        if _distance(cell) > TOLERANCE
    ]
    return (
        table(["<", "cells in both", WITHIN, "geometric mean", "worst"], lines),
        table(["<cell", "<", "reference", "here", "ratio"], outside) if outside else "",
    )


def launch(some):
    """Microseconds that a call of the reference takes longer: the median over the shorter half of the cells, because in long
    ones a small difference of clocks is more than a launch."""
    times = [(cell.us / cell.ratio, cell.us) for cell in some]
    middle = median(there for there, _ in times)
    return median(there - here for there, here in times if there <= middle)


def launches(found):
    """One line a group that has cells: agreement as timed, and with the group's launch added to the times here."""
    lines = []
    for name, grid, providers in GROUPS:
        some = [cell for cell in found if cell.case.grid == grid and cell.provider in providers]
        if some:
            extra = launch(some)
            added = [cell._replace(ratio=cell.ratio * (cell.us + extra) / cell.us) for cell in some]
            worst = max(added, key=_distance)
            peers = ", ".join(label(p) for p in providers if any(cell.provider == p for cell in some))
            lines.append(
                [
                    f"{name}: {peers}",
                    len(some),
                    _within(some),
                    f"{microseconds(extra)} us",
                    _within(added),
                    link(worst.case, f"{worst.ratio:.3f}"),
                ]
            )
    return table(["<", "cells", WITHIN, "launch", f"{WITHIN} with it", "worst with it"], lines) if lines else ""

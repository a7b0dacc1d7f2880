# SPDX-License-Identifier: MIT
"""The charts: what they show. draw.py turns them into SVG files.

Every provider has one color and marker in all charts. Limits are dashed and dark.
"""
import dataclasses
from statistics import geometric_mean

from .providers import PROVIDERS, STROBE
from .tables import against, count, groups

LIMIT, BEST_PEER = "#444444", "#8a8a8a"
FLOOR_LABEL = "reading K and V only"


@dataclasses.dataclass
class Series:
    label: str
    color: str
    points: list  # (x, y); in a chart of intervals (x, line, low, high)
    marker: str = ""
    dashed: bool = False
    bold: bool = False


@dataclasses.dataclass
class Panel:
    title: str
    series: list
    texts: list = dataclasses.field(default_factory=list)  # (x, y, text), left of the point


@dataclasses.dataclass
class Chart:
    name: str
    alt: str  # for those who cannot see it
    panels: list
    columns: int
    x: str
    y: str
    log_y: bool = False
    lines: list = None  # labels of a chart of intervals

    @property
    def file(self):
        return f"benchmarks-{self.name}.svg"


def _provider(provider, points):
    label, _, color, marker = PROVIDERS[provider]
    return Series(label, color, points, marker, bold=provider == STROBE)


def _lines(results, some, x, y):
    """A series a provider over these cases; y is a function of (case, row), None where there is no figure."""
    made = []
    for provider in (*results.peers(some), STROBE):  # strobe last, on top
        points = [(x(case), y(case, row)) for case in some if (row := results.get(case, provider))]
        points = sorted(point for point in points if point[1] is not None)
        if points:
            made.append(_provider(provider, points))
    return made


def _split(some, *keys):
    """Lists of cases that agree in these attributes, in their order."""
    parts = {}
    for case in some:
        parts.setdefault(tuple(getattr(case, key) for key in keys), []).append(case)
    return [parts[values] for values in sorted(parts)]


def _columns(some, key):
    return max(1, len({getattr(case, key) for case in some}))


def _prefill(results, name, alt, title, across):
    """A row of panels for full and one for causal, a column a value of `across`."""
    some, matmul = results.grid(name), results.matmul()
    panels = []
    for part in _split(some, "causal", across):
        series = _lines(results, part, lambda case: case.q_len, lambda case, row: row["TFLOPS"])
        if matmul:
            lengths = [case.q_len for case in part]
            limit = [(length, matmul["TFLOPS"]) for length in (min(lengths), max(lengths))]
            series.append(Series(f"matrix product, {count(matmul['TFLOPS'])} TFLOP/s", LIMIT, limit, dashed=True))
        panels.append(Panel(title(part[0]), series))
    return Chart(name, alt, panels, _columns(some, across), "tokens in a sequence", "TFLOP/s")


def _decode(results, name, alt, label, y, limit, **more):
    """A row of panels for each heads and head dim, a column a batch; y as in _lines, limit a function of the case."""
    some, panels = results.grid("decode"), []
    for part in _split(some, "head_dim", "q_heads", "kv_heads", "batch"):
        series = _lines(results, part, lambda case: case.kv_len, y)
        points = sorted((case.kv_len, limit(case)) for case in part if results.floor_us(case))
        if points:
            series.append(Series(FLOOR_LABEL, LIMIT, points, dashed=True))
        panels.append(Panel(f"{part[0].heads} heads, D {part[0].head_dim}, batch {part[0].batch}", series))
    return Chart(name, alt, panels, _columns(some, "batch"), "keys in the cache", label, **more)


def _tokens(results):
    """strobe at each batch, and the best peer of each cell."""
    panels = []
    for part in _split(results.grid("decode"), "head_dim", "q_heads", "kv_heads"):
        series, texts = [], []
        for line in _split(part, "batch"):
            points = lambda time: sorted((case.kv_len, case.batch / us * 1e6) for case in line if (us := time(case)))
            if best := points(lambda case: (row := results.best_peer(case)) and row["median_us"]):
                series.append(Series("best peer of each cell", BEST_PEER, best, "D"))
            if strobe := points(lambda case: (row := results.get(case)) and row["median_us"]):
                series.append(_provider(STROBE, strobe))
                texts.append((*strobe[0], f"batch {line[0].batch}"))
            if floor := points(results.floor_us):
                series.append(Series(FLOOR_LABEL, LIMIT, floor, dashed=True))
        panels.append(Panel(f"{part[0].heads} heads, D {part[0].head_dim}", series, texts))
    alt = "Decode: tokens a second of one attention layer against context"
    return Chart("decode-tokens", alt, panels, 2, "keys in the cache", "tokens a second, one attention layer", log_y=True)


def _ratios(results):
    """Geometric mean, smallest and largest ratio to each peer, a line a group of the summary."""
    lines = [(title, some) for title, some in groups(results) if results.peers(some)]
    series = []
    for provider in results.peers([case for _, some in lines for case in some]):
        points = []
        for i, (_, some) in enumerate(lines):
            values = [value for case in some if (value := against(results, case, results.get(case, provider)))]
            if values:
                points.append((geometric_mean(values), i, min(values), max(values)))
        series.append(_provider(provider, points))
    alt = "Peer time over strobe time: geometric mean, smallest and largest cell of each grid"
    label = "peer's time / strobe's time: geometric mean, and from the smallest to the largest cell"
    panels = [Panel("", series)] if series else []
    return Chart("ratios", alt, panels, 1, label, "", lines=[title for title, _ in lines])


def chart_list(results):
    """Those charts for which there are figures."""
    share = lambda case, row: (floor := results.floor_us(case)) and floor / row["median_us"]
    charts = [
        _ratios(results),
        _prefill(results, "prefill", "Prefill: TFLOP/s against sequence length",
                 lambda case: f"D {case.head_dim}, {case.variant}", "head_dim"),
        _prefill(results, "twelve-heads", "Prefill with 12 heads of 64: TFLOP/s against sequence length",
                 lambda case: f"batch {case.batch}, {case.variant}", "batch"),
        _decode(results, "decode", "Decode: time against context", "microseconds",
                lambda case, row: row["median_us"], results.floor_us, log_y=True),
        _decode(results, "decode-limit", "Decode: share of the reading limit against context", "share of the limit",
                share, lambda case: 1.0),
        _tokens(results),
    ]
    return [chart for chart in charts if any(panel.series for panel in chart.panels)]

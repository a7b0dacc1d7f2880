# SPDX-License-Identifier: MIT
"""Numbers and Markdown tables. A missing cell is an en dash."""

from statistics import geometric_mean

from .cases import slug
from .providers import CEILING, PROVIDERS, STROBE

DASH = "–"


def microseconds(x):
    return DASH if x is None else f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 1000 else f"{x:.0f}"


def rate(x):
    return DASH if x is None else f"{x:.0f}" if x >= 100 else f"{x:.1f}"


def ratio(x):
    return DASH if x is None else f"{x:.2f}"


def percent(x):
    return DASH if x is None else f"{100 * x:.0f} %"


def count(x):
    """With a thin space between thousands."""
    return DASH if x is None else f"{x:,.0f}".replace(",", "\u2009")


def table(columns, rows):
    """columns: headings; one that starts with '<' is set flush left."""
    heads = [column.lstrip("<") for column in columns]
    rules = ["--" if column.startswith("<") else "--:" for column in columns]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (heads, rules, *rows))


def anchored(case, text):
    return f'<a id="{slug(case.name)}"></a>{text}'


def link(case, text):
    return f"[{text}](#{slug(case.name)})"


def against(results, case, row):
    """That row's time over strobe's, or None."""
    strobe = results.get(case)
    return row["median_us"] / strobe["median_us"] if row and strobe else None


def share(results, case):
    """Of the limit: matrix product for prefill, reading floor for decode. Or None."""
    row = results.get(case)
    return row.get("fraction") if row else None


def comparison(results, some, lead, metric, limit, anchors=lambda case: True):
    """A row a case: the lead columns {heading: text of a case}, strobe, each peer, the best peer's ratio, the limit's share."""
    peers = results.peers(some)
    decode = some[0].kind == "decode"
    show = microseconds if metric == "median_us" else rate
    rows = []
    for case in some:
        cells = [text(case) for text in lead.values()]
        if anchors(case):
            cells[0] = anchored(case, cells[0])
        if decode:
            cells.append(microseconds(results.floor_us(case)))
        measured = {p: row for p in (STROBE, *peers) if (row := results.get(case, p))}
        fastest = min(measured, key=lambda p: measured[p]["median_us"])
        for provider in (STROBE, *peers):
            text = show(measured[provider][metric]) if provider in measured else DASH
            cells.append(f"**{text}**" if provider == fastest and len(measured) > 1 else text)
        if peers:
            cells.append(ratio(against(results, case, results.best_peer(case))))
        rows.append([*cells, percent(share(results, case))])
    labels = ["strobe", *(PROVIDERS[p].label for p in peers)] + (["best peer / strobe"] if peers else [])
    return table([*lead, *(["floor"] if decode else []), *labels, limit], rows)


def _mean_and_least(some, value, show):
    """ "1.12, least 1.05", the least linked to its row; "(12 cells)" if the others have no value."""
    pairs = [(case, x) for case in some if (x := value(case)) is not None]
    if not pairs:
        return DASH
    case, least = min(pairs, key=lambda pair: pair[1])
    text = f"{show(geometric_mean(x for _, x in pairs))}, least {link(case, show(least))}"
    return text if len(pairs) == len(some) else f"{text} ({len(pairs)} cells)"


def groups(results):
    """[(label, cases)]: the lines of the summary. A whole grid, then its parts."""
    grids = (
        ("prefill", "Prefill, 16k tokens", lambda case: (case.head_dim, case.causal), lambda case: f"D {case.head_dim}, {case.variant}"),
        ("twelve-heads", "Prefill, 12 heads of 64", lambda case: case.batch, lambda case: f"batch {case.batch}"),
        ("variants", "Masks and scores", lambda case: case.head_dim, lambda case: f"D {case.head_dim}"),
        ("decode", "Decode", lambda case: case.batch, lambda case: f"batch {case.batch}"),
        ("caches", "Decode", lambda case: (case.policy, case.page), lambda case: case.cache),
    )
    lines = []
    for grid, title, key, label in grids:
        parts = {}
        for case in sorted(filter(results.get, results.grid(grid)), key=key):
            parts.setdefault(label(case), []).append(case)
        if len(parts) > 1 and grid != "caches":  # pages and policies together would be a mean of unlike things
            lines.append((title, sum(parts.values(), [])))
        lines += [(f"{title}, {text}", some) for text, some in parts.items()]
    return lines


def summary(results):
    lines = groups(results)
    peers = results.peers([case for _, some in lines for case in some])
    columns = {PROVIDERS[p].label: lambda case, p=p: results.get(case, p) for p in peers}
    if peers:
        columns["best peer of each cell"] = results.best_peer
    rows = []
    for title, some in lines:
        ratios = [
            _mean_and_least(some, lambda case: against(results, case, row_of(case)), "{:.3f}".format)
            for row_of in columns.values()
        ]
        rows.append([title, len(some), *ratios, _mean_and_least(some, lambda case: share(results, case), percent)])
    return table(["<", "cells", *columns, "share of the limit"], rows)


def caches(results):
    """Paged and fixed beside the strided cache: microseconds, and in brackets the time over the strided one."""
    some = [case for case in results.grid("caches") if results.get(case)]
    kinds = list(dict.fromkeys(case.cache for case in sorted(some, key=lambda case: (case.policy, case.page))))
    shapes, cost = {}, {kind: [] for kind in kinds}
    for case in some:
        shapes.setdefault(case.base(), {})[case.cache] = case
    rows = []
    for base, variants in shapes.items():
        strided, first = results.get(base), next(iter(variants.values()))
        cells = [first.heads, first.head_dim, first.batch, first.kv_len, microseconds(strided and strided["median_us"])]
        for kind in kinds:
            if case := variants.get(kind):
                time = results.get(case)["median_us"]
                if strided:
                    cost[kind].append((case, time / strided["median_us"]))
                cells.append(anchored(case, microseconds(time) + (f" ({time / strided['median_us']:.2f})" if strided else "")))
            else:
                cells.append(DASH)
        rows.append(cells)
    total = []
    for kind, pairs in cost.items():
        if pairs:
            case, most = max(pairs, key=lambda pair: pair[1])
            total.append([kind, len(pairs), f"{geometric_mean(value for _, value in pairs):.3f}", link(case, f"{most:.3f}")])
    return (
        table(["<cache", "cells", "geometric mean", "largest"], total),
        table(["<heads", "D", "batch", "keys", "strided", *kinds], rows),
    )


def ceilings(results):
    what = {
        "matmul": lambda case: f"{case.type} matrix product, {case.size} x {case.size} x {case.size}",
        "copy": lambda case: f"copy of {case.size} MB, bytes read and written",
        "read": lambda case: f"read of {case.size} MB",
        "exp2": lambda case: "exp2, all multiprocessors",
    }
    unit = {"TFLOPS": "TFLOP/s", "GBps": "GB/s", "Gops": "Gop/s"}
    rows = []
    for case in results.grid("ceilings"):
        text = anchored(case, what[case.kind](case))
        for provider, program in ((STROBE, "strobe_bench"), (CEILING, "peers.py")):
            if row := results.get(case, provider):
                figure = f"{count(row[case.metric])} {unit[case.metric]}"
                rows.append([text, program, figure, f"{count(row['low_us'])} to {count(row['high_us'])}"])
                text = what[case.kind](case)
    return table(["<what", "<by", "figure", "microseconds, 10th to 90th percentile"], rows)


def spread(results):
    """How far the 10th and 90th percentile lie apart."""
    rows = []
    for provider in PROVIDERS:
        some = [row for row in results.rows if row["provider"] == provider]
        if some:
            widths = sorted((row["high_us"] - row["low_us"]) / row["median_us"] for row in some)
            rows.append([PROVIDERS[provider].label, len(some), *(f"{100 * widths[i]:.1f} %" for i in (len(widths) // 2, -1))])
    return table(["<", "cells", "median", "largest"], rows)

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/ladder.md and its two charts from a run of the ladder.

  bash examples/ladder/run.sh --json results.json
  python3 examples/ladder/page.py results.json [--out DIR]

The prose is page.md.in beside this file; every number comes from the JSON. --out is the folder of the page (docs); the charts
go to images/ in it. Needs matplotlib. The same JSON gives the same bytes.
"""
import argparse
import json
import pathlib
import string
import sys

HERE = pathlib.Path(__file__).resolve().parent
STEPS = ("01_cpu", "02_naive", "03_tiled", "04_fused", "05_register_tiles", "06_strobe", "07_strobe_hopper")
OPTIONAL = ("07_strobe_hopper",)  # not every GPU runs it
DECODES = ("05_one_block", "05_split_k", "06_strobe")
NAMES = {"01_cpu": "1 CPU, one core", "02_naive": "2 naive", "03_tiled": "3 tiled", "04_fused": "4 fused",
         "05_register_tiles": "5 register tiles", "06_strobe": "6 strobe, mma.sync",
         "07_strobe_hopper": "7 strobe, wgmma"}
DECODE_NAMES = {"05_one_block": "one block a head", "05_split_k": "split over the keys", "06_strobe": "strobe"}


class BadResults(Exception):
    """What is wrong with the JSON, by field and value."""


class Results:
    """A run: prefill[step, len, causal] and decode[step, len] are its rows."""

    def __init__(self, data):
        self.context, self.prefill, self.decode, self.skipped = data.get("context", {}), {}, {}, []
        for field in ("gpu", "driver", "date", "command"):
            if not self.context.get(field):
                raise BadResults(f"context.{field} is {self.context.get(field)!r}; want a text")
        for i, row in enumerate(data.get("rows", [])):
            try:
                self.add(row)
            except KeyError as missing:
                raise BadResults(f"rows[{i}] has no field {missing}") from None
        measured = {key[0] for key in self.prefill}
        self.steps = [step for step in STEPS if step in measured or step not in OPTIONAL]
        for step in self.steps:
            if step not in measured:
                raise BadResults(f"no row has a measured prefill of step {step}")
        for step in DECODES:
            if not any(key[0] == step for key in self.decode):
                raise BadResults(f"no row has a measured decode of step {step}")
        heads = {row["heads"] for row in [*self.prefill.values(), *self.decode.values()]}
        if len(heads) != 1:
            raise BadResults(f"heads is {sorted(heads)}; want the same in all rows")
        self.heads = heads.pop()
        self.lens = sorted({key[1] for key in self.prefill})
        common = [n for n in self.lens if all((step, n, False) in self.prefill for step in self.steps)]
        if not common:
            raise BadResults("no length S has a row of every step without a mask")
        # The length of the first table and the chart.
        self.len = 4096 if 4096 in common else common[-1]

    def add(self, row):
        decode = row["kind"] == "decode"
        length = row["Sk" if decode else "S"]
        where = f"step {row['step']}, {row['kind']} of {length}"
        if "skipped" in row:
            self.skipped.append((row["step"], length, row["causal"], row["skipped"]))
            return
        if row["right"] is not True:
            raise BadResults(f"{where}: right is {row['right']!r}, max_error {row['max_error']!r}")
        if not row["us"]:
            raise BadResults(f"{where}: us is {row['us']!r}; host execution has no time, the page needs a run on a GPU")
        if decode:
            self.decode[row["step"], length] = row
        else:
            self.prefill[row["step"], length, row["causal"]] = row

    def ladder(self):
        """(row, speed-up over the step before or None) of each step at the chosen length, without a mask."""
        rows = [self.prefill[step, self.len, False] for step in self.steps]
        before = [None] + rows[:-1]
        return [(row, row["TFLOPS"] / b["TFLOPS"] if b else None) for row, b in zip(rows, before)]


def digits(x):
    """Three significant digits, without an exponent."""
    x = float(f"{x:.3g}")
    for decimals, limit in ((0, 100), (1, 10), (2, 1), (3, 0.1), (4, 0.01)):
        if x >= limit:
            return f"{x:.{decimals}f}"
    return f"{x:.5f}"


def time_of(row):
    us = row["us"]
    text = f"{digits(us)} us" if us < 1000 else f"{digits(us / 1000)} ms"
    timed = row.get("rows_timed", row.get("S"))
    return text if timed == row.get("S") else f"{text} for {timed} of {row['S']} rows a head"


def table(head, rows):
    """Markdown; the first column is text, the others are numbers."""
    lines = [head, ["--"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def ladder_table(results):
    rows = []
    for row, speedup in results.ladder():
        model = row["model_TFLOPS"]
        rows.append([NAMES[row["step"]], time_of(row), digits(row["TFLOPS"]), f"{digits(speedup)}x" if speedup else "",
                     digits(model) if model else "", f"{100 * row['TFLOPS'] / model:.0f} %" if model else ""])
    return table(["step", "a call", "TFLOP/s", "over the step before", "its model", "part of it"], rows)


def step_text(row, speedup):
    """One paragraph of numbers under a step's prose."""
    text = f"**{digits(row['TFLOPS'])} TFLOP/s** at {row['S']} tokens"
    if speedup:
        text += f", {digits(speedup)} times the step before"
    text += f". Limit: {row['limit']}."
    model = row["model_TFLOPS"]
    if model:
        part = row["TFLOPS"] / model
        text += f" That arithmetic allows {digits(model)} TFLOP/s; "
        text += (f"{100 * part:.0f} % of it were reached." if part <= 1 else
                 f"the measurement is {digits(part)} times that, so the model is too strict.")
    return text


def lengths_table(results, causal):
    def cell(step, n):
        row = results.prefill.get((step, n, causal))
        return digits(row["TFLOPS"]) if row else "-"

    return table(["step", *map(str, results.lens)],
                 [[NAMES[step], *(cell(step, n) for n in results.lens)] for step in results.steps])


def skipped_text(results):
    return "\n".join(f"- {NAMES[step]}, {length} tokens, {'causal' if causal else 'without a mask'}: {why}."
                     for step, length, causal, why in results.skipped)


def error_table(results):
    def worst(measured, step):
        rows = [row for key, row in measured.items() if key[0] == step]
        return f"{max(row['max_error'] for row in rows):.1e}", f"{max(row['tolerance'] for row in rows):.0e}"

    rows = [[NAMES[step], *worst(results.prefill, step)] for step in results.steps]
    rows += [[f"decode, {DECODE_NAMES[step]}", *worst(results.decode, step)] for step in DECODES]
    return table(["step", "error", "allowed"], rows)


def decode_table(results):
    rows = []
    for length in sorted({key[1] for key in results.decode}):
        cells = []
        for step in DECODES:
            row = results.decode.get((step, length))
            cells += [digits(row["us"]), digits(row["GBps"])] if row else ["-", "-"]
        blocks = results.decode.get(("05_split_k", length))
        rows.append([str(length), *cells, blocks["note"] if blocks else "-"])
    head = ["keys"]
    for step in DECODES:
        head += [f"{DECODE_NAMES[step]}, us", "GB/s"]
    return table([*head, "the split"], rows)


# ---- charts ------------------------------------------------------------------------------------------------

INK, MUTED, BARS, LINES = "#24292f", "#6e7781", "#1f6feb", ("#6e7781", "#bf8700", "#1f6feb")


def new_chart(width, height):
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "strobe", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
                                "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
                                "axes.edgecolor": MUTED})
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(width, height))
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure, path):
    from matplotlib import pyplot
    figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def ladder_chart(results, path):
    rows = results.ladder()
    figure, axes = new_chart(8, 3.6)
    axes.barh(range(len(rows)), [row["TFLOPS"] for row, _ in rows], color=BARS, height=0.6)
    for i, (row, speedup) in enumerate(rows):
        if row["model_TFLOPS"]:
            axes.plot([row["model_TFLOPS"]] * 2, [i - 0.38, i + 0.38], color=INK, linewidth=2,
                      label="what the step's limit allows (model)" if i == 1 else None)
        axes.text(max(row["TFLOPS"], row["model_TFLOPS"] or 0) * 1.15, i,
                  digits(row["TFLOPS"]) + (f"   {digits(speedup)}x" if speedup else ""), va="center")
    axes.set_xscale("log")
    axes.set_xlim(min(row["TFLOPS"] for row, _ in rows) / 2, max(row["model_TFLOPS"] or row["TFLOPS"] for row, _ in rows) * 10)
    axes.set_yticks(range(len(rows)), [NAMES[row["step"]] for row, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"TFLOP/s, and times the step before; {results.heads} heads, head dim 64, {results.len} tokens, no mask")
    axes.set_title(results.context["gpu"], loc="left", fontsize=10, color=MUTED)
    axes.legend(loc="lower left", bbox_to_anchor=(0.35, 1), frameon=False, fontsize=9)
    save(figure, path)


def decode_chart(results, path):
    figure, axes = new_chart(8, 3.4)
    lens = sorted({key[1] for key in results.decode})
    for step, color in zip(DECODES, LINES):
        points = [(n, results.decode[step, n]["GBps"]) for n in lens if (step, n) in results.decode]
        axes.plot(*zip(*points), color=color, marker="o", markersize=4, label=DECODE_NAMES[step])
    peak = next(iter(results.decode.values()))["model_GBps"]
    if peak:
        axes.axhline(peak, color=MUTED, linewidth=1, linestyle="--", label=f"memory's peak, {peak:.0f}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lens, map(str, lens))
    axes.minorticks_off()
    axes.set_xlabel("keys")
    axes.set_ylabel("GB/s")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, reverse=True)
    axes.set_title(f"{results.context['gpu']}, decode, {results.heads} heads", loc="left", fontsize=10, color=MUTED)
    save(figure, path)


def write_page(data, results_name, out):
    """results_name: of the JSON, as the page's command shows it."""
    results = Results(data)
    values = {**results.context, "results": results_name, "cpu": results.prefill["01_cpu", results.len, False]["gpu"], "heads": results.heads, "len": results.len,
              "ladder_table": ladder_table(results), "full_table": lengths_table(results, False),
              "causal_table": lengths_table(results, True), "skipped": skipped_text(results),
              "error_table": error_table(results), "decode_table": decode_table(results)}
    for step in OPTIONAL:
        values[f"step_{step}"] = "This run did not measure it."
    for row, speedup in results.ladder():
        values[f"step_{row['step']}"] = step_text(row, speedup)
    page = string.Template((HERE / "page.md.in").read_text()).substitute(values)
    (out / "images").mkdir(parents=True, exist_ok=True)
    ladder_chart(results, out / "images/ladder.svg")
    decode_chart(results, out / "images/ladder-decode.svg")
    while "\n\n\n" in page:  # where nothing was skipped
        page = page.replace("\n\n\n", "\n\n")
    (out / "ladder.md").write_text(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", help="what run.sh --json wrote")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parents[1] / "docs", help="folder of the page")
    options = parser.parse_args()
    try:
        path = pathlib.Path(options.results).resolve()
        inside = path.is_relative_to(HERE.parents[1])
        write_page(json.loads(path.read_text()), path.relative_to(HERE.parents[1]) if inside else path.name, options.out)
    except BadResults as problem:
        sys.exit(f"{options.results}: {problem}")
    except ImportError as missing:
        sys.exit(f"page.py needs matplotlib: {missing}")


if __name__ == "__main__":
    main()

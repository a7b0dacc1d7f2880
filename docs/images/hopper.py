#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the pictures of docs/hopper.md: python3 docs/images/hopper.py

hopper-schedule.svg is a small simulation of include/strobe/kernel/prefill_sm90a.cuh, hopper-shared.svg the arithmetic of its
PrefillSm90a. Needs Python alone. The background is white, so that a page in dark mode shows them too.
"""

import html
import pathlib

INK, FAINT, GRID = "#222222", "#666666", "#dddddd"
FIRST, SECOND = ("#1f5f9e", "#a9cbea"), ("#b4500f", "#f3c39e")  # of a consumer: dark, light
LOAD, CONTROL = ("#2c6e49", "#b7dcc4"), "#777777"


class Picture:
    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="DejaVu Sans, Verdana, sans-serif" font-size="12" fill="{INK}">',
            f"<title>{html.escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def text(self, x, y, words, anchor="start", size=12, fill=INK, weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}" font-weight="{weight}">'
            f"{html.escape(words)}</text>"
        )

    def box(self, x, y, width, height, fill, words="", ink=INK, stroke="none", size=12):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="{stroke}"/>'
        )
        if words:
            self.text(x + width / 2, y + height / 2 + 0.36 * size, words, "middle", size, ink)

    def line(self, x0, y0, x1, y1, stroke=GRID, width=1.0, dash=""):
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{stroke}" stroke-width="{width}"{style}/>'
        )

    def arrow(self, x, y0, y1, stroke=INK):
        tip = 5 if y1 > y0 else -5
        self.line(x, y0, x, y1 - tip, stroke, 1.3)
        self.parts.append(f'<path d="M {x - 3.5:.1f} {y1 - tip:.1f} h 7 L {x:.1f} {y1:.1f} z" fill="{stroke}"/>')

    def save(self, path):
        path.write_text("\n".join(self.parts + ["</svg>"]) + "\n")


# ---- the schedule ----------------------------------------------------------------------------------------

TILES, STAGES = 4, {"Q": 2, "K": 2, "V": 3}
PRODUCT = 512  # clocks of a product of 64 x 128 x 128 at 2048 multiply-adds a clock
SOFTMAX, ROUND, ISSUE, STORE = 2040, 180, 60, 1800  # so that the tensor cores are busy for three quarters of a round
# As the producer asks; those numbered TILES and up, and Q1, are the next query tile's.
ORDER = ("K0", "Q0", "K1", "V0", "K2", "V1", "K3", "V2", "V3", "K4", "Q1", "K5", "V4")
COPY, LATENCY = 330, 250  # of a 32 KiB tile


def simulate():
    """Begins and ends, in clocks: copies, what consumers do, products in the order in which they run, turns."""
    freed = {}  # ("K" or "V", tile) -> when both consumers are done with it
    for _ in range(8):  # the copies follow the consumers and the consumers the copies
        copies, arrived, at = [], {}, 0
        for name in ORDER:
            tile = int(name[1:])
            begin = max(at, freed.get((name[0], tile - STAGES[name[0]]), 0))
            copies.append((name, begin, begin + COPY))
            at, arrived[name] = begin + COPY, begin + COPY + LATENCY
        doing, products, turns = ([], []), [], []
        now, turn, tensor, released = [0, 0], [0, 0], 0, {}

        def multiply(c, name, tile, asked):
            nonlocal tensor
            begin = max(asked, tensor)
            tensor = begin + PRODUCT
            products.append((c, name, tile, asked, begin, tensor))
            return tensor

        def release(name, tile, when):
            released[name, tile] = max(released.get((name, tile), 0), when)

        def soften(c, tile, begin):
            doing[c].append((f"softmax of S{tile}", begin, begin + SOFTMAX))
            return begin + SOFTMAX

        def round_p(c, tile, begin):
            doing[c].append(("P", begin, begin + ROUND))
            now[c] = begin + ROUND

        for c in (0, 1):
            s_done = multiply(c, "QK", 0, max(arrived["K0"], arrived["Q0"]))
            release("K", 0, s_done)
            round_p(c, 0, soften(c, 0, s_done))
        for j in range(1, TILES):
            for c in (0, 1):
                issue = max(now[c], turn[c], arrived[f"K{j}"])
                s_done = multiply(c, "QK", j, issue)
                o_done = multiply(c, "PV", j - 1, max(issue + ISSUE, arrived[f"V{j - 1}"]))
                turn[1 - c] = issue + 2 * ISSUE
                turns.append((c, issue + 2 * ISSUE))
                release("K", j, s_done)
                if j == TILES - 1:
                    release("Q", 0, s_done)
                exponentials = soften(c, j, s_done)
                release("V", j - 1, max(exponentials, o_done))
                round_p(c, j, max(exponentials, o_done))
        for c in (0, 1):
            now[c] = multiply(c, "PV", TILES - 1, max(now[c], arrived[f"V{TILES - 1}"]))
            release("V", TILES - 1, now[c])
        for c in (0, 1):
            begin = max(now[c], arrived[f"K{TILES}"], arrived["Q1"])
            multiply(c, "QK", TILES, begin)
            doing[c].append(("store O", begin, begin + STORE))
        freed = released
    return copies, doing, products, turns


def draw_schedule(path):
    copies, doing, products, turns = simulate()
    end = max(row[-1][2] for row in doing)
    left, width, right = 128, 1100, 14
    x = lambda clock: left + clock / end * (width - left - right)
    picture = Picture(width, 392, "Schedule of one query tile with four key tiles: copies, two consumers, tensor cores")
    rows = {"copies": 34, "first": 104, "second": 196, "tensor": 288}
    colours = (FIRST, SECOND)

    for name, y in rows.items():
        if name != "copies":
            picture.line(left, y - 16, width - right, y - 16)
    for key, name, note in (
        ("copies", "producer warp", "copies by TMA"),
        ("first", "consumer 1", "rows 0 to 63"),
        ("second", "consumer 2", "rows 64 to 127"),
        ("tensor", "tensor cores", "one product"),
    ):
        picture.text(10, rows[key] + 13, name, weight="bold")
        picture.text(10, rows[key] + 28, note, size=11, fill=FAINT)
    picture.text(10, rows["tensor"] + 42, "after the other", size=11, fill=FAINT)

    for name, begin, until in copies:
        following = name == "Q1" or int(name[1:]) >= TILES
        shown = name[0] if name[0] == "Q" else f"{name[0]}{int(name[1:]) % TILES}"
        picture.box(x(begin), rows["copies"], x(until) - x(begin) - 1, 30, "#ffffff" if following else LOAD[1], shown,
                    stroke=LOAD[0], size=11)
    for c, key in enumerate(("first", "second")):
        y, (dark, light) = rows[key], colours[c]
        picture.line(x(0), y + 15, x(doing[c][-1][2]), y + 15, dark, 1, "2 3")
        for name, begin, until in doing[c]:
            solid = name == "store O" or name == "P"
            picture.box(x(begin), y, x(until) - x(begin), 30, dark if solid else light, "" if name == "P" else name,
                        "#ffffff" if solid else INK)
        for who, name, tile, asked, begin, until in products:
            if who == c:
                lane = y + 36 + (0 if name == "QK" else 14)
                picture.box(x(asked), lane, x(until) - x(asked), 11, "#ffffff", f"{name}{tile % TILES}", dark, dark, 10)
    for c, when in turns:
        ends = (rows["first"] + 64, rows["second"] - 1)
        picture.arrow(x(when), *(ends if c == 0 else ends[::-1]))
        picture.text(x(when) + 5, rows["second"] - 19, "turn", size=10)
    for c, name, tile, asked, begin, until in products:
        dark, light = colours[c]
        following = tile >= TILES
        picture.box(x(begin), rows["tensor"], x(until) - x(begin) - 1, 30,
                    "#ffffff" if following else dark if name == "QK" else light, f"{name}{tile % TILES}",
                    "#ffffff" if name == "QK" and not following else INK, dark, 11)

    y = 356
    picture.line(left, y - 14, width - right, y - 14)
    at = 10
    for kind, words, length in (
        ("soft", "maximum, exponentials", 165),
        ("solid", "rounding P; storing O", 155),
        ("open", "products issued, not complete", 200),
        ("dash", "waiting", 70),
        ("copy", "copy of a tile; white here and below: the next query tile's", 330),
    ):
        if kind == "soft":
            picture.box(at, y, 9, 12, FIRST[1]), picture.box(at + 9, y, 9, 12, SECOND[1])
        elif kind == "solid":
            picture.box(at, y, 9, 12, FIRST[0]), picture.box(at + 9, y, 9, 12, SECOND[0])
        elif kind == "open":
            picture.box(at, y, 18, 12, "#ffffff", stroke=FIRST[0])
        elif kind == "dash":
            picture.line(at, y + 6, at + 18, y + 6, FIRST[0], 1, "2 3")
        else:
            picture.box(at, y, 18, 12, LOAD[1], stroke=LOAD[0])
        picture.text(at + 24, y + 10, words, size=11)
        at += 24 + length
    picture.text(10, y + 30, f"QK1: S = Q K^T of key tile 1. PV1: O += P V of key tile 1. Time runs to the right, {end} clocks in all; a sketch by "
                 "docs/images/hopper.py, not a measurement.", size=11, fill=FAINT)
    picture.save(path)


# ---- shared memory ---------------------------------------------------------------------------------------

LIMIT = 227 * 1024


def memory(head_dim, value_dim, block_q, block_kv):
    """PrefillSm90a's sizes: control, Q, one K tile, one V tile; buffers of Q, stages of K and of V."""
    panels = lambda dim: (dim + 63) // 64
    q, k, v = block_q * 128 * panels(head_dim), block_kv * 128 * panels(head_dim), block_kv * 128 * panels(value_dim)
    ring = LIMIT - 1024
    buffers = 2 if ring >= 2 * q + 2 * k + 3 * v else 1
    left = ring - buffers * q
    k_stages = min(left // (k + v), 4)
    return 1024, q, k, v, buffers, k_stages, min((left - k_stages * k) // v, 4)


def draw_shared(path):
    widths = ((64, 64, 192, 128), (128, 128, 128, 128), (192, 128, 128, 128), (256, 256, 128, 64))
    left, width, top, step = 128, 1000, 40, 50
    picture = Picture(width, top + step * len(widths) + 26, "Shared memory of a block by head dim")
    x = lambda size: left + size / 1024 / 240 * (width - left)
    bottom = top + step * len(widths) - 10
    for kib in range(0, 225, 64):
        picture.line(x(kib * 1024), top - 8, x(kib * 1024), bottom)
        picture.text(x(kib * 1024), top - 14, f"{kib} KiB" if kib else "0", "middle", 11, FAINT)
    picture.line(x(LIMIT), top - 24, x(LIMIT), bottom, INK, 1.2, "4 3")
    picture.text(x(LIMIT) - 5, top - 14, "limit: 227 KiB", "end", 11)
    for row, (head_dim, value_dim, block_q, block_kv) in enumerate(widths):
        control, q, k, v, buffers, k_stages, v_stages = memory(head_dim, value_dim, block_q, block_kv)
        y = top + row * step
        picture.text(10, y + 13, f"D {head_dim}" if head_dim == value_dim else f"D {head_dim}, value {value_dim}", weight="bold")
        picture.text(10, y + 28, f"{block_q} x {block_kv}", size=11, fill=FAINT)
        picture.box(x(0), y, x(control) - x(0), 30, CONTROL)
        at = control
        parts = [(f"Q{i}", q, "#e3e3e3", "#777777") for i in range(buffers)]
        parts += [(f"K{i}", k, FIRST[1], FIRST[0]) for i in range(k_stages)]
        parts += [(f"V{i}", v, SECOND[1], SECOND[0]) for i in range(v_stages)]
        for name, size, fill, stroke in parts:
            words = f"{name}: {size // 1024}" if name in ("Q0", "K0", "V0") else name
            picture.box(x(at), y, x(at + size) - x(at), 30, fill, words, stroke=stroke, size=11)
            at += size
    picture.text(10, bottom + 20, "First comes the control block, 1 KiB: barriers, steps and items. Numbers in boxes are KiB. Q0, Q1: the buffers of Q; K0, K1, ..: the stages.",
                 size=11, fill=FAINT)
    picture.save(path)


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    draw_schedule(here / "hopper-schedule.svg")
    draw_shared(here / "hopper-shared.svg")

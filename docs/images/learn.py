# SPDX-License-Identifier: MIT
"""Draws the pictures of docs/learn, into docs/images or another folder: python3 docs/images/learn.py [FOLDER]

learn-timeline.svg is drawn from learn-timeline.txt, which examples/trace_tile.cu wrote:
  build/host/examples/trace_tile docs/images/learn-timeline.txt
Text and colours are in the files; nothing is fetched, nothing depends on the machine.
"""

import math
import pathlib
import sys

from hopper import CONTROL, FAINT, FIRST, GRID, INK, LOAD, SECOND, Picture

HERE = pathlib.Path(__file__).parent
SHADES = ("#ffffff", FIRST[1], FIRST[0])
GREY = "#e3e3e3"


def arrow(picture, x0, y0, x1, y1, stroke=INK, width=1.3):
    """A line with a tip at its end."""
    picture.line(x0, y0, x1, y1, stroke, width)
    angle, size = math.atan2(y1 - y0, x1 - x0), 6
    left, right = angle + math.pi * 0.87, angle - math.pi * 0.87
    picture.parts.append(
        f'<path d="M {x1:.1f} {y1:.1f} L {x1 + size * math.cos(left):.1f} {y1 + size * math.sin(left):.1f} '
        f'L {x1 + size * math.cos(right):.1f} {y1 + size * math.sin(right):.1f} z" fill="{stroke}"/>'
    )


# ---- attention of one query ------------------------------------------------------------------------------

LOGITS = (1, 3, 2, 0, 2, 5, 1, 3, 0, 4, 2, 1)  # examples/online_softmax.cpp has the same
VALUES = (4, 2, 6, 1, 3, 8, 5, 2, 7, 4, 1, 6)


def draw_row(path):
    """One query: dot products, softmax, weighted mean."""
    picture = Picture(860, 262, "Attention of one query: a logit for every key, weights that sum to 1, the mean of the values")
    left, step = 170, 54
    largest = max(LOGITS)
    weights = [math.exp(x - largest) for x in LOGITS]
    total = sum(weights)
    rows = (("q · k", "one logit a key", 28), ("softmax", "weights, sum 1", 84), ("v", "a row of V a key", 172))
    for name, note, y in rows:
        picture.text(10, y + 16, name, weight="bold")
        picture.text(10, y + 32, note, size=11, fill=FAINT)
    for i, (logit, weight, value) in enumerate(zip(LOGITS, weights, VALUES)):
        x = left + i * step
        picture.text(x + 22, 14, f"key {i}", "middle", 11, FAINT)
        picture.box(x, 28, 44, 28, FIRST[1], str(logit), stroke=FIRST[0])
        share = weight / total
        picture.box(x, 156 - 68 * share / 0.6, 44, 68 * share / 0.6, SECOND[1], stroke=SECOND[0])
        picture.text(x + 22, 150 - 68 * share / 0.6, f"{share:.2f}", "middle", 11)
        picture.box(x, 172, 44, 28, "#ffffff", str(value), stroke=CONTROL)
        picture.line(x + 22, 200, x + 22, 212, CONTROL)
    picture.line(left, 156, left + 12 * step - 10, 156, CONTROL)
    picture.line(left + 22, 212, left + 11 * step + 22, 212, CONTROL)
    middle = left + 5.5 * step + 22
    arrow(picture, middle, 212, middle, 228, CONTROL)
    mean = sum(w * v for w, v in zip(weights, VALUES)) / total
    picture.text(middle, 245, f"output: the values, weighted: {mean:.3f}", "middle", weight="bold")
    picture.save(path)


def draw_online(path):
    """The same row in three tiles, with the three numbers that are kept."""
    picture = Picture(860, 330, "Online softmax: three tiles of four keys, and the running maximum, sum and output after each")
    left, step, tile = 120, 54, 4
    m, l, o = -math.inf, 0.0, 0.0
    for t in range(3):
        x0 = left + t * (tile * step + 22)
        picture.text(x0 + tile * step / 2 - 5, 16, f"tile {t}", "middle", weight="bold")
        new = max(m, *LOGITS[t * tile : (t + 1) * tile])
        shrink = math.exp(m - new)
        ps = []
        for i in range(tile):
            logit, value = LOGITS[t * tile + i], VALUES[t * tile + i]
            p = math.exp(logit - new)
            ps.append((p, value))
            x = x0 + i * step
            picture.box(x, 28, 44, 26, FIRST[1], str(logit), stroke=FIRST[0])
            picture.box(x, 66, 44, 26, SECOND[1], f"{p:.3f}", stroke=SECOND[0], size=11)
            picture.box(x, 104, 44, 26, "#ffffff", str(value), stroke=CONTROL)
        old = (l, o)
        l = l * shrink + sum(p for p, _ in ps)
        o = o * shrink + sum(p * v for p, v in ps)
        y = 158
        picture.box(x0, y, tile * step - 10, 96, "#ffffff", stroke=INK)
        moved = "first tile" if m == -math.inf else "the maximum stays" if new == m else f"grew: old times {shrink:.3f}"
        picture.text(x0 + 8, y + 18, f"m = {new}", weight="bold")
        picture.text(x0 + 58, y + 18, moved, size=11, fill=SECOND[0] if new != m and m != -math.inf else FAINT)
        before = ("0", "0") if m == -math.inf else (f"{old[0]:.3f} · {shrink:.3f}", f"{old[1]:.3f} · {shrink:.3f}")
        picture.text(x0 + 8, y + 44, f"l = {before[0]} + {sum(p for p, _ in ps):.3f}", size=11)
        picture.text(x0 + 8, y + 60, f"  = {l:.3f}", size=11, weight="bold")
        picture.text(x0 + 100, y + 60, f"o = {o:.3f}", size=11, weight="bold")
        picture.text(x0 + 8, y + 84, f"o / l = {o / l:.3f}", size=11, fill=FAINT)
        if t < 2:
            arrow(picture, x0 + tile * step - 10, y + 48, x0 + tile * step + 22, y + 48)
        m = new
    for name, y in (("logit", 45), ("exp(logit - m)", 83), ("value", 121), ("kept a row:", 180), ("3 numbers", 196)):
        picture.text(10, y, name, size=11, fill=FAINT if y > 180 else INK)
    picture.text(10, 284, f"After the last tile: output o / l = {o / l:.3f}, LSE m + log l = {m + math.log(l):.3f}. No row of logits was ever kept; in a kernel o is a row of value_dim numbers.", size=12)
    picture.text(10, 306, "The numbers are those of examples/online_softmax.cpp.", size=11, fill=FAINT)
    picture.save(path)


# ---- tiles -----------------------------------------------------------------------------------------------

def draw_tiles(path):
    """Where S would be, and where it is."""
    picture = Picture(980, 330, "Left: the whole matrix of logits in memory. Right: one tile of it at a time, on the chip")
    size = 176
    # left: the plain way
    x, y = 96, 70
    picture.text(x + size / 2 - 20, 20, "the plain way", "middle", weight="bold")
    picture.box(x, y, size, size, GREY, stroke=CONTROL)
    picture.text(x + size / 2, y + size / 2 - 6, "S, then P:", "middle")
    picture.text(x + size / 2, y + size / 2 + 12, "q_len × kv_len", "middle")
    picture.text(x + size / 2, y + size / 2 + 30, "in global memory", "middle", 11, FAINT)
    picture.box(x - 34, y, 24, size, FIRST[1], "Q", stroke=FIRST[0])
    picture.box(x, y - 34, size, 24, LOAD[1], "K", stroke=LOAD[0])
    picture.box(x, y + size + 10, size, 24, SECOND[1], "V", stroke=SECOND[0])
    picture.box(x + size + 10, y, 24, size, "#ffffff", "O", stroke=INK)
    picture.text(10, 316, "16384 tokens, one head, 16 bits: 512 MiB, written and read twice.", size=11, fill=FAINT)
    # right: tiles
    x, tiles = 580, 8
    cell = size / tiles
    picture.text(x + size / 2, 20, "FlashAttention", "middle", weight="bold")
    row = 4
    for i in range(tiles):
        picture.box(x - 34, y + i * cell, 24, cell - 2, FIRST[1] if i == row else "#ffffff", stroke=FIRST[0])
        picture.box(x + i * cell, y - 34, cell - 2, 24, LOAD[1] if i == 3 else "#ffffff", stroke=LOAD[0])
        picture.box(x + i * cell, y + size + 10, cell - 2, 24, SECOND[1] if i == 3 else "#ffffff", stroke=SECOND[0])
        picture.box(x + size + 10, y + i * cell, 24, cell - 2, GREY if i == row else "#ffffff", stroke=INK)
        for j in range(tiles):
            picture.box(x + j * cell, y + i * cell, cell - 2, cell - 2, SHADES[2] if (i, j) == (row, 3) else "#ffffff", stroke=GRID)
    picture.text(x - 42, y + (row + 0.5) * cell + 4, "Q tile stays", "end", 11)
    picture.text(x + size + 42, y + (row + 0.5) * cell - 4, "m, l, O of these", "start", 11)
    picture.text(x + size + 42, y + (row + 0.5) * cell + 10, "rows, in registers", "start", 11)
    arrow(picture, x + 3.9 * cell, y + (row + 0.5) * cell - 1, x + 6 * cell, y + (row + 0.5) * cell - 1, FIRST[0], 2)
    picture.text(x + size + 10, y - 17, "K and V tiles pass by,", "start", 11)
    picture.text(x + size + 10, y - 3, "a few at a time in shared memory", "start", 11)
    picture.text(500, 316, "One tile of S exists at a time, in registers; a thread block has one row of tiles.", size=11, fill=FAINT)
    picture.save(path)


MASKS = (
    ("Full", lambda q, k: True),
    ("Causal", lambda q, k: k <= q),
    ("Window{40, 0}", lambda q, k: q - 40 <= k <= q),
    ("SinkWindow{4, 40}", lambda q, k: k <= q and (k < 4 or k >= q - 40)),
    ("Causal, 3 documents", lambda q, k: k <= q and (q >= 42) == (k >= 42) and (q >= 88) == (k >= 88)),
)


def draw_masks(path):
    """Which 16 x 16 tiles of 128 x 128 logits are skipped, asked for each element, or multiplied as they are."""
    length, tile, cell, gap = 128, 16, 18, 24
    tiles = length // tile
    width = tiles * cell
    picture = Picture(len(MASKS) * (width + gap) + gap, 268, "Key tiles of five masks: white is skipped, light asked element by element, dark multiplied without a question")
    for n, (name, visible) in enumerate(MASKS):
        x0, y0 = gap + n * (width + gap), 44
        picture.text(x0, 24, name, weight="bold")
        visited = 0
        for i in range(tiles):
            for j in range(tiles):
                seen = sum(visible(q, k) for q in range(i * tile, (i + 1) * tile) for k in range(j * tile, (j + 1) * tile))
                kind = 0 if seen == 0 else 2 if seen == tile * tile else 1
                visited += kind > 0
                picture.box(x0 + j * cell, y0 + i * cell, cell - 2, cell - 2, SHADES[kind], stroke=GRID if kind == 0 else FIRST[0])
        picture.text(x0, y0 + width + 18, f"{visited} of {tiles * tiles} tiles visited", size=11, fill=FAINT)
    at = gap
    for kind, words, length in ((0, "skip: neither loaded nor asked", 220), (1, "partial: visible(q, k) asked", 200), (2, "full: no question", 140)):
        picture.box(at, 222, 14, 14, SHADES[kind], stroke=GRID if kind == 0 else FIRST[0])
        picture.text(at + 20, 233, words, size=11)
        at += length
    picture.text(gap, 257, "Down: 128 queries in tiles of 16; to the right: 128 keys.", size=11, fill=FAINT)
    picture.save(path)


# ---- one tile, from the trace ----------------------------------------------------------------------------

# Lengths in clocks, which a trace does not have: a product of 64 x 128 x 128 at a tensor core's peak, a copy of
# 32 KiB, and a softmax long enough to show what runs beside it.
PRODUCT, COPY, LATENCY, ASK, SOFTMAX, ROUND, STORE = 512, 330, 250, 25, 1500, 180, 1300


def replay(lines):
    """Puts times to a trace. Boxes: (lane, kind, name, begin, end). Links: (from, to, barrier, when)."""
    boxes, links = [], []
    clock = {"producer": 0.0, "consumer0": 0.0, "consumer1": 0.0}
    copies = tensor = 0.0
    landed, arrivals, complete, ends = {}, {}, {}, {}
    landing = None
    work = {}  # what an actor does once it has told the others: arrivals come first

    def spend(who, kind, name, length):
        boxes.append((who, kind, name, clock[who], clock[who] + length))
        clock[who] += length

    for line in lines:
        who, what, name = line.split()
        if what != "arrive" and who in work:
            for kind, words, length in work.pop(who):
                spend(who, kind, words, length)
        if what == "load":
            copies = max(clock["producer"], copies) + COPY
            landed[name] = copies + LATENCY
            boxes.append(("copies", "copy", name, copies - COPY, copies))
            clock["producer"] += ASK
        elif what == "land":
            landing = (landed[name], "copies")
        elif what == "arrive":
            arrivals.setdefault(name, []).append((clock[who], who))
        elif what == "complete":
            came = arrivals.pop(name, []) + ([landing] if landing else [])
            complete[name], landing = max(came, default=(0.0, "")), None
        elif what == "pass":
            when, giver = complete.get(name, (0.0, ""))
            if when > clock[who]:
                links.append((giver, who, name, when))
                boxes.append((who, "wait", name, clock[who], when))
                clock[who] = when
        elif what == "issue":
            tensor = max(clock[who], tensor) + PRODUCT
            ends[who, name] = tensor
            boxes.append(("tensor", who, name, tensor - PRODUCT, tensor))
            boxes.append((who, "flight", name, clock[who], tensor))
            clock[who] += ASK
            if name == NEXT:
                work[who] = [("store", "store O", STORE)]
        elif what == "done":
            if ends[who, name] > clock[who]:
                boxes.append((who, "wait", name, clock[who], ends[who, name]))
                clock[who] = ends[who, name]
            tile = name[2:]
            if name.startswith("QK") and name != NEXT:
                work[who] = [("softmax", f"softmax of S{tile}", SOFTMAX)] + ([("round", "P", ROUND)] if tile == "0" else [])
            elif name.startswith("PV") and name != LAST:
                work[who] = [("round", "P", ROUND)]
    return boxes, links


NEXT, LAST = "QK4", "PV3"  # the next query tile's first product; this one's last


def draw_timeline(path, trace):
    lines = trace.read_text().split("\n")[:-1]
    ends = [max(i for i, line in enumerate(lines) if line == f"consumer{c} done {NEXT}") for c in (0, 1)]
    boxes, links = replay(lines[: max(ends) + 1])
    end = max(box[4] for box in boxes if box[1] == "store")
    left, width, right = 130, 1190, 10
    x = lambda clock: left + clock / end * (width - left - right)
    picture = Picture(width, 470, "Timeline of one query tile with four key tiles, drawn from a trace of the kernel")
    lanes = {"copies": 30, "producer": 82, "consumer0": 146, "consumer1": 244, "tensor": 340}
    names = {"copies": ("memory", "tiles on their way"), "producer": ("producer", "one warp"), "consumer0": ("consumer 0", "rows 0 to 63"),
             "consumer1": ("consumer 1", "rows 64 to 127"), "tensor": ("tensor cores", "one after the other")}
    colours = {"consumer0": FIRST, "consumer1": SECOND}
    for lane, y in lanes.items():
        picture.text(10, y + 12, names[lane][0], weight="bold")
        picture.text(10, y + 27, names[lane][1], size=11, fill=FAINT)
        picture.line(left, y + 15, width - right, y + 15, GRID, 1)
    for giver, taker, name, when in links:
        if when > end or giver == taker:
            continue
        colour = LOAD[0] if giver == "copies" else colours[giver][0] if giver in colours else CONTROL
        top, bottom = lanes[giver], lanes[taker]
        down = bottom > top
        arrow(picture, x(when), top + (30 if down else 0), x(when), bottom + (0 if down else 30), colour, 1.1)
    for lane, kind, name, begin, until in boxes:
        if begin >= end or lane not in lanes:
            continue
        y, until = lanes[lane], min(until, end)
        w = x(until) - x(begin) - 1
        following = name in (NEXT, "Q1") or (kind == "copy" and name[0] in "KV" and int(name[1:]) > 3)
        if kind == "copy":
            picture.box(x(begin), y, w, 30, "#ffffff" if following else LOAD[1], name if w > 18 else "", stroke=LOAD[0], size=11)
        elif kind == "wait":
            picture.box(x(begin), y + 9, w, 12, "#ffffff", stroke=CONTROL)
            if w > 7 * len(name):
                picture.text(x(begin) + w / 2, y + 19, name, "middle", 10, FAINT)
        elif kind == "flight":
            picture.box(x(begin), y + 36 + (13 if name.startswith("PV") else 0), w, 11, "#ffffff", name if w > 24 else "", colours[lane][0], colours[lane][0], 10)
        elif lane == "tensor":
            dark, light = colours[kind]
            solid = name.startswith("QK") and not following
            picture.box(x(begin), y, w, 30, "#ffffff" if following else dark if solid else light, name if w > 26 else "", "#ffffff" if solid else INK, dark, 11)
        else:
            dark, light = colours[lane]
            solid = kind in ("round", "store")
            picture.box(x(begin), y, w, 30, dark if solid else light, name if w > 16 else "", "#ffffff" if solid else INK, size=11)
    y = 396
    picture.line(left, y - 10, width - right, y - 10)
    at = 10
    for fill, stroke, height, words, length in (
        (LOAD[1], LOAD[0], 12, "copy of a tile (white: the next query tile's)", 280), ("#ffffff", CONTROL, 8, "waits for the barrier or product named", 255),
        (FIRST[1], FIRST[1], 12, "maximum, exponentials", 178), (FIRST[0], FIRST[0], 12, "P rounded; O stored", 155), ("#ffffff", FIRST[0], 8, "a product in flight, for its consumer", 240)):
        picture.box(at, y + (12 - height) / 2, 18, height, fill, stroke=stroke)
        picture.text(at + 24, y + 10, words, size=11)
        at += length
    picture.text(10, y + 34, "Arrows: who let whom go on. Green: a tile has landed. From a consumer to the producer: a stage is free. A wait that takes no time has no arrow; here nobody has to wait for a turn to issue.", size=11)
    picture.text(10, y + 54, f"Who waits for whom is recorded (examples/trace_tile.cu, on the CPU). How long things take is not: a product {PRODUCT} clocks, a copy {COPY} + {LATENCY}, a softmax {SOFTMAX}, a store {STORE} are assumed.", size=11, fill=FAINT)
    picture.save(path)


if __name__ == "__main__":
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    draw_row(to / "learn-row.svg")
    draw_online(to / "learn-online.svg")
    draw_tiles(to / "learn-tiles.svg")
    draw_masks(to / "learn-masks.svg")
    draw_timeline(to / "learn-timeline.svg", HERE / "learn-timeline.txt")

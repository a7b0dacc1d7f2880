# SPDX-License-Identifier: MIT
"""Tests of benchmarks/analyse.py. Python alone: no GPU and no ncu; both programs are made up, as are all figures.

python3 -m unittest discover -s tests/python
"""

import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks")]

from analysis import counters, measure, model, page  # noqa: E402
from report import cases, draw, links  # noqa: E402

FULL = "prefill/fp16/B:4/Hq:16/Hkv:16/Sq:4096/Sk:4096/D:128/causal:0"
CAUSAL = FULL.replace("causal:0", "causal:1")
DECODE = "decode/fp16/B:8/Hq:32/Hkv:8/Sq:1/Sk:8192/D:128/kv:fp16/page:0"
DEVICE = {
    "sm_count": 100,
    "max_clock_khz": 2000000,
    "max_threads_per_sm": 2048,
    "registers_per_sm": 65536,
    "shared_bytes_per_sm": 233472,
    "reserved_shared_bytes_per_block": 1024,
    "l2_bytes": 50000000,
}
PREFILL_RESOURCES = {
    "kernel": "prefill_sm80",
    "blocks": 2048,
    "threads": 128,
    "registers": 255,
    "local_bytes": 0,
    "static_shared_bytes": 0,
    "dynamic_shared_bytes": 98304,
    "blocks_per_sm": 2,
    "block_q": 128,
    "block_kv": 64,
    "row_warps": 4,
    "key_warps": 1,
    "parts": 1,
    "compiled_head_dim": 128,
    "binary_version": 90,
    "ptx_version": 90,
}
HOPPER_RESOURCES = {
    **PREFILL_RESOURCES,
    **{"kernel": "prefill_sm90a", "blocks": 100, "threads": 384, "registers": 168, "dynamic_shared_bytes": 164864},
    **{"blocks_per_sm": 1, "block_kv": 128, "row_warps": 8},
}
DECODE_RESOURCES = {
    **PREFILL_RESOURCES,
    **{"kernel": "decode_sm80", "blocks": 256, "block_q": 16, "block_kv": 32, "row_warps": 1, "key_warps": 4},
    **{"parts": 4, "dynamic_shared_bytes": 69632, "blocks_per_sm": 3, "registers": 168},
}


def csv_text(columns, units, *rows):
    line = lambda fields: ",".join(f'"{field}"' for field in fields)
    lead, blank = ["ID", "Kernel Name", "Device"], ["", "", ""]
    return "\n".join(
        [
            "==PROF== Connected to process 1 (strobe_bench)",
            '==PROF== Profiling "prefill_sm80" - 0: 0%....50%....100% - 9 passes',
            "==PROF== Disconnected from process 1",
            line([*lead, *columns]),
            line([*blank, *units]),
            *(line([str(i), "prefill_sm80, with a comma", "0", *row]) for i, row in enumerate(rows)),
            "==WARNING== a line behind",
        ]
    )


class Parse(unittest.TestCase):
    def test_layout_separators_units_and_gaps(self):
        text = csv_text(
            ["dram__bytes_read.sum", "sm__cycles_active.max", "a__b.ratio", "c__d.sum", "e__f.sum", "gpu__time_duration.sum"],
            ["Mbyte", "cycle", "", "", "", "us"],
            ["1.5", "1,234,567", "0.25", "(!) n/a", "", "2.5"],
        )
        (launch,) = counters.parse(text)
        self.assertEqual(
            launch,
            {
                "dram__bytes_read.sum": 1.5e6,
                "sm__cycles_active.max": 1234567,
                "a__b.ratio": 0.25,
                "c__d.sum": None,
                "e__f.sum": None,
                "gpu__time_duration.sum": 2500,
            },
        )

    def test_other_words_for_units(self):
        for unit, value in (("byte", 2), ("Gbyte", 2e9), ("nsecond", None), ("msecond", None), ("%", 2)):
            (launch,) = counters.parse(csv_text(["a__b.sum"], [unit], ["2"]))
            self.assertEqual(launch["a__b.sum"], value or {"nsecond": 2, "msecond": 2e6}[unit])

    def test_nothing_profiled(self):
        self.assertEqual(counters.parse("==ERROR== no kernels were profiled\n"), [])
        self.assertEqual(counters.parse(""), [])

    def test_not_numbers(self):
        for text in ("nan", "inf", "n/a", "-", "1.2.3", "", "."):
            self.assertIsNone(counters._number(text), text)
        self.assertEqual(counters._number(" -1,000.5e1 "), -10005)

    def test_names_are_asked_once_and_every_unit_has_a_counter_that_is_asked_for(self):
        self.assertEqual(len(counters.METRICS), len(set(counters.METRICS)))
        self.assertEqual(set(counters.BUSY), set(model.UNITS))
        self.assertEqual(set(page.STALLS), set(counters.STALL_REASONS))
        for names in [*counters.BUSY.values(), *counters.BUSY_OF_WGMMA.values()]:
            self.assertLessEqual(set(names), set(counters.METRICS))


class FakeNcu:
    """Stands in for subprocess.run: refuses some names as a whole, does not have others."""

    def __init__(self, refused=(), absent=(), error="==ERROR== Failed to find metric {}", permission=True):
        self.refused, self.absent, self.error, self.permission, self.asked = refused, absent, error, permission, []

    def __call__(self, command, **_):
        names = command[command.index("--metrics") + 1].split(",")
        self.asked.append(names)
        done = lambda text: subprocess.CompletedProcess(command, 0, text, "")
        if not self.permission:
            return done("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
        wrong = [name for name in names if name in self.refused]
        if wrong:
            return done(self.error.format(wrong[0].split(".")[0]))
        values = ["n/a" if name in self.absent else "1,000" for name in names]
        return done(csv_text(names, [""] * len(names), values))


class Profiling(unittest.TestCase):
    def counters(self, ncu, shapes=1, seconds=100.0):
        profiler = counters.Profiler("ncu", pathlib.Path("strobe_bench"), lambda: seconds, lambda text: None, ncu)
        return [profiler.counters(FULL) for _ in range(shapes)]

    def test_all_in_one_run(self):
        ncu = FakeNcu()
        ((found, missing),) = self.counters(ncu)
        self.assertEqual((set(found), missing), (set(counters.METRICS), {}))
        self.assertEqual(len(ncu.asked), 1)

    def test_what_is_not_there_is_missing(self):
        name = counters.stall("misc")
        ((found, missing),) = self.counters(FakeNcu(absent=[name]))
        self.assertEqual(missing, {name: "n/a"})
        self.assertNotIn(name, found)

    def test_a_refused_name_is_dropped_and_not_asked_again(self):
        name = "lts__t_sectors_op_read.sum"
        ncu = FakeNcu(refused=[name])
        for found, missing in self.counters(ncu, shapes=2):
            self.assertEqual(list(missing), [name])
            self.assertEqual(set(found) | {name}, set(counters.METRICS))
        self.assertEqual(len(ncu.asked), 3)

    def test_names_that_are_refused_one_at_a_time(self):
        names = ["lts__t_sectors_op_read.sum", "dram__bytes_read.sum"]
        ncu = FakeNcu(refused=names)
        ((found, missing),) = self.counters(ncu)
        self.assertEqual((sorted(missing), len(ncu.asked)), (sorted(names), 3))
        self.assertEqual(set(found) | set(names), set(counters.METRICS))

    def test_a_refusal_that_names_nothing_costs_its_group(self):
        ncu = FakeNcu(refused=["dram__bytes_read.sum"], error="==ERROR== something is wrong")
        (found, missing), (_, again) = self.counters(ncu, shapes=2)
        self.assertEqual(set(missing), set(counters.GROUPS["dram"]))
        self.assertEqual(set(found), set(counters.METRICS) - set(missing))
        self.assertEqual(missing, again)
        self.assertEqual(len(ncu.asked), 1 + len(counters.GROUPS) + 1)

    def test_without_permission_ncu_runs_once(self):
        ncu = FakeNcu(permission=False)
        for found, missing in self.counters(ncu, shapes=2):
            self.assertEqual(found, {})
            self.assertIn("ERR_NVGPUCTRPERM", missing["dram__bytes_read.sum"])
        self.assertEqual(len(ncu.asked), 1)

    def test_when_time_is_up_nothing_is_asked(self):
        ncu = FakeNcu()
        ((found, missing),) = self.counters(ncu, seconds=0.0)
        self.assertEqual((found, set(missing.values()), ncu.asked), ({}, {"time was up"}, []))


class Model(unittest.TestCase):
    def test_prefill_by_hand(self):
        """4 batches of 16 heads, 32 blocks of 128 rows, 64 tiles of 64 keys."""
        work = model.work(cases.parse(FULL), PREFILL_RESOURCES)
        tiles = 4 * 16 * 32 * 64
        self.assertEqual(work.tiles, tiles)
        self.assertEqual(work.visible_flop, 4 * 64 * 4096**2 * 128)
        self.assertEqual(work.tensor, work.visible_flop)  # whole tiles, nothing hidden
        self.assertEqual(work.mufu, 64 * 4096**2 + tiles * 4 * 128)
        self.assertEqual((work.fma, work.alu), (2 * 64 * 4096**2, 1.5 * 64 * 4096**2))
        self.assertEqual(work.shared_read, tiles * (4 * 64 * 256 * 2 + 128 * 128 * 2))
        self.assertEqual(work.shared, work.shared_read + tiles * 64 * 256 * 2 + 2048 * 128 * 128 * 2)
        tensor = 64 * 4096 * 128 * 2  # bytes of Q, and of K, V, O
        self.assertEqual(work.l2, 32 * 2 * tensor + 2 * tensor + 4 * 64 * 4096)
        self.assertEqual(work.hbm, 4 * tensor + 4 * 64 * 4096)
        self.assertEqual(work.issue, work.tensor / 4096 + work.shared_read / 512 + (work.mufu + work.fma + work.alu) / 32)

    def test_prefill_by_wgmma_by_hand(self):
        """2 consumers of 64 rows; 32 tiles of 128 keys."""
        work = model.work(cases.parse(FULL), HOPPER_RESOURCES)
        tiles, logits = 4 * 16 * 32 * 32, 64 * 4096**2
        self.assertEqual((work.tiles, work.tensor, work.mufu), (tiles, work.visible_flop, logits))
        # One consumer: for each 16 of D A and B of S = Q K^T, and all of V for O += P V.
        read = 8 * (64 * 16 + 128 * 16) + 128 * 128
        self.assertEqual(work.shared_read, tiles * 2 * read * 2)
        self.assertEqual(work.shared, work.shared_read + tiles * 128 * 256 * 2 + 2048 * 128 * 128 * 2)
        self.assertEqual(work.issue, tiles * 2 * 4 * (8 + 8) + (1 + 2 + 1.5) * logits / 32)
        portable = model.work(cases.parse(FULL), PREFILL_RESOURCES)
        for unit in ("fma", "alu", "l2", "hbm"):  # the same block_q
            self.assertEqual(getattr(work, unit), getattr(portable, unit))

    def test_wgmma_has_the_whole_tensor_rate(self):
        run = made_up(HOPPER_RESOURCES)
        made = model.ceilings(run, run["shapes"][0])
        self.assertEqual(made["tensor"].rate, 4096 * 100 * 1500)
        self.assertNotIn("%", made["tensor"].why)
        self.assertAlmostEqual(model.ceilings(run, run["shapes"][-1])["tensor"].rate, 4096 * 2 / 3 * 100 * 1500)

    def test_causal_walks_tiles_up_to_the_diagonal(self):
        """Block i ends at key 128 (i + 1): 2, 4, .. 64 tiles of 64 keys."""
        work = model.work(cases.parse(CAUSAL), PREFILL_RESOURCES)
        self.assertEqual(work.tiles, 64 * sum(range(2, 65, 2)))
        self.assertEqual(work.visible_flop, 4 * 64 * 4096**2 * 128 / 2)

    def test_causal_is_aligned_at_the_end(self):
        case = cases.parse("prefill/fp16/B:1/Hq:1/Hkv:1/Sq:100/Sk:300/D:64/causal:1")
        self.assertEqual(model.key_tiles(case, 128, 64), 5)  # one block that ends at key 300
        case = cases.parse("prefill/fp16/B:1/Hq:1/Hkv:1/Sq:300/Sk:100/D:64/causal:1")
        self.assertEqual(model.key_tiles(case, 128, 64), 0 + 1 + 2)  # ends at -72, 56, 100

    def test_decode_by_hand(self):
        """8 batches of 8 KV heads, 4 packed rows of 16, 256 tiles of 32 keys, 4 parts."""
        work = model.work(cases.parse(DECODE), DECODE_RESOURCES)
        self.assertEqual(work.tiles, 64 * 256)
        self.assertEqual(work.visible_flop, 4 * 8 * 32 * 8192 * 128)
        self.assertEqual(work.tensor, 4 * work.visible_flop)
        cache, rows = 2 * 64 * 8192 * 128 * 2, 8 * 32
        self.assertEqual(work.shared_read, cache + 64 * 256 * 16 * 128 * 2)
        self.assertEqual(work.hbm, cache + 2 * rows * 256 + rows * 4 * 130 * 4)
        self.assertEqual(work.l2, cache + 4 * rows * 256 + rows * 256 + 2 * rows * 4 * 130 * 4)

    def test_other_masks_are_refused(self):
        with self.assertRaisesRegex(model.ModelError, "mask:window1024"):
            model.work(cases.parse(CAUSAL + "/mask:window1024"), PREFILL_RESOURCES)

    def test_shares_by_hand(self):
        run = made_up()
        shape = run["shapes"][0]
        self.assertEqual(model.clock(run, shape)[:2], (1500, model.MEASURED))
        made = model.ceilings(run, shape)
        self.assertAlmostEqual(made["tensor"].rate, 4096 * 2 / 3 * 100 * 1500)
        self.assertEqual((made["hbm"].rate, made["hbm"].label), (4000 * 1e3, model.MEASURED))
        self.assertEqual(made["mufu"].rate, 2400 * 1e3)
        self.assertEqual(made["l2"].rate, 5e9 / 0.5 / 1000)  # 5 GB in 1000 us at half of the peak
        work = model.work(cases.parse(FULL), PREFILL_RESOURCES)
        shares = model.shares(run, shape, work)
        self.assertAlmostEqual(shares["tensor"], work.tensor / (4096 * 2 / 3 * 100 * 1500) / 900)
        self.assertAlmostEqual(shares["hbm"], work.hbm / 4e6 / 900)
        self.assertAlmostEqual(model.implied_tensor_rate(run, shape, work), work.tensor / (0.58 * 1.4e6 * 100))

    def test_nothing_is_made_up_for_an_unknown_gpu(self):
        run = made_up()
        run["context"]["compute_capability"] = "99.0"
        run["ceilings"] = {}
        shape = run["shapes"][0]
        shape["counters"] = {}
        made = model.ceilings(run, shape)
        self.assertEqual([unit for unit in made if made[unit].rate is None], ["tensor", "fma", "l2", "hbm"])
        self.assertEqual(model.clock(run, shape)[1], model.MODELLED)

    def test_what_limits_occupancy(self):
        self.assertEqual(model.resident({"device": DEVICE}, PREFILL_RESOURCES), {"registers": 2, "shared memory": 2, "threads": 16})
        self.assertEqual(model.resident({"device": DEVICE}, DECODE_RESOURCES), {"registers": 3, "shared memory": 3, "threads": 16})
        self.assertEqual(model.resident({"device": DEVICE}, HOPPER_RESOURCES), {"registers": 1, "shared memory": 1, "threads": 5})
        two = {**DECODE_RESOURCES, "dynamic_shared_bytes": 115712, "static_shared_bytes": 1024}
        self.assertEqual(model.resident({"device": DEVICE}, two)["shared memory"], 2)


def made_up(prefill=PREFILL_RESOURCES):
    """Prefill: the tensor pipe at 58 %, short of saturation; decode: HBM at 92 %."""
    counted = {name: 10.0 for name in counters.METRICS}
    counted.update({counters.stall(reason): 0.1 for reason in counters.STALL_REASONS})
    counted.update(
        {
            "gpu__time_duration.sum": 1e6,
            "sm__cycles_elapsed.max": 1.5e6,
            "sm__cycles_active.avg": 1.4e6,
            "sm__pipe_tensor_op_hmma_cycles_active" + counters.ACTIVE: 58.0,
            "lts__t_bytes.sum": 5e9,
            "lts__t_bytes.sum.pct_of_peak_sustained_elapsed": 50.0,
            "dram__bytes_read.sum": 2e8,
            "dram__bytes_write.sum": 5e7,
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 1234567.0,
            counters.stall("wait"): 1.3,
        }
    )
    shapes = []
    for name in measure.SHAPES:
        decode = name.startswith("decode")
        shape = {
            "name": name,
            "resources": dict(DECODE_RESOURCES if decode else prefill),
            "time": {"median_us": 900.0, "low_us": 890.0, "high_us": 910.0, "samples": 20, "TFLOPS": 300.0},
            "counters": dict(counted),
            "missing": {},
        }
        if decode:
            shape["counters"]["dram__throughput" + counters.ELAPSED] = 92.0
            shape["counters"][counters.stall("long_scoreboard")] = 5.0
        shapes.append(shape)
    shapes[0]["name"] = FULL
    return {
        "format": measure.FORMAT,
        "context": {
            **{"gpu": "NVIDIA Imaginary", "driver": "1.2.3", "cuda": "13.0", "date": "2001-02-03T04:05:06+00:00"},
            **{"compute_capability": "9.0", "ncu": "2025.3.1.0"},
        },
        "device": dict(DEVICE),
        "commands": ["strobe_bench --resources", "ncu --csv"],
        "ceilings": {"ceiling/read/MB:1024": {"GBps": 4000.0}, "ceiling/exp2": {"Gops": 2400.0}},
        "shapes": shapes,
    }


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def text(self, run, image=None):
        source = self.folder / "run.json"
        source.write_text(json.dumps(run), encoding="utf-8")
        return page.text(page.read(source), source, self.folder / "analysis.md", image, self.folder)

    def test_the_answer_follows_from_the_counters(self):
        text = self.text(made_up())
        self.assertIn("**Prefill.** No unit saturates. Of 5 shapes the busiest unit is: tensor pipe in 5 (58 %, *measured*).", text)
        self.assertIn("the fixed latency of its last instruction (`wait`)", text)
        self.assertIn("**Decode.** HBM saturates in every shape.", text)
        self.assertIn("a load from L2 or memory (`long_scoreboard`)", text)
        self.assertIn("1\u2009234\u2009567", text)
        self.assertIn("Every counter that was asked for could be read.", text)

    def test_each_kernel_by_its_own_product(self):
        portable, text = self.text(made_up()), self.text(made_up(HOPPER_RESOURCES))
        for words in ("the modelled wavefronts also are", "`prefill_sm90a` is launched", "| tensor pipe, `wgmma` |"):
            self.assertNotIn(words, portable)
            self.assertIn(words, text)
        self.assertIn("| tensor pipe, `wgmma` | 614 TFLOP/s | modelled | 4096 FLOP a clock and multiprocessor |", text)
        self.assertIn("| tensor pipe, `mma.sync` | 410 TFLOP/s |", text)
        self.assertRegex(text, r"\| Prefill \| D 128, S 4096, full \| `wgmma` \| \d+ \|")
        self.assertRegex(text, r"\| Decode \| .* \| `mma.sync` \| \d+ \|")

    def test_wgmma_reads_shared_memory_without_the_load_and_store_unit(self):
        run = made_up(HOPPER_RESOURCES)
        for shape in run["shapes"]:
            shape["counters"]["l1tex__data_pipe_lsu_wavefronts_mem_shared" + counters.ELAPSED] = 85.0
            shape["counters"]["l1tex__data_bank_reads" + counters.ELAPSED] = 70.0
        shapes = page.shapes_of(run)
        self.assertEqual((shapes[0].busy["shared"], shapes[-1].busy["shared"]), (0.7, 0.85))
        del run["shapes"][0]["counters"]["l1tex__data_bank_reads" + counters.ELAPSED]
        self.assertIsNone(page.shapes_of(run)[0].busy["shared"])

    def test_a_limit_that_contradicts_the_runtime_is_not_shown(self):
        run = made_up()
        self.assertIn("| registers and shared memory |", self.text(run))
        for shape in run["shapes"]:
            shape["resources"]["blocks_per_sm"] = 1
        self.assertNotIn("| registers and shared memory |", self.text(run))

    def test_another_run_another_answer(self):
        run = made_up()
        busy = "l1tex__data_pipe_lsu_wavefronts_mem_shared" + counters.ELAPSED
        for shape in run["shapes"][:2]:
            shape["counters"][busy] = 85.0
        text = self.text(run)
        self.assertIn("Shared memory saturates in 2 of 5 shapes; in the others no unit does.", text)
        self.assertIn("tensor pipe in 3 (58 %, *measured*), shared memory in 2 (85 %, *measured*)", text)

    def test_missing_counters_are_not_available(self):
        run = made_up()
        for shape in run["shapes"]:
            shape["missing"] = {name: "n/a" for name in shape["counters"]}
            shape["counters"] = {}
        text = self.text(run)
        self.assertIn("*Not available*: no counter of any unit could be read. By the model alone", text)
        self.assertIn("| `dram__bytes_read.sum` | n/a | all |", text)
        self.assertIn("the device's highest clock", text)
        self.assertNotRegex(text, r"\bNone\b|nan|\$\w")

    def test_every_single_counter_and_time_may_be_missing(self):
        whole = made_up()
        for name in [*counters.METRICS, "time"]:
            run = copy.deepcopy(whole)
            for shape in run["shapes"]:
                if name == "time":
                    shape["time"] = None
                else:
                    shape["missing"][name] = "n/a"
                    del shape["counters"][name]
            text = self.text(run)
            self.assertNotRegex(text, r"\bNone\b|\bnan\b|\$\w", name)

    def test_labels_links_and_the_run(self):
        text = self.text(made_up())
        for fact in ("NVIDIA Imaginary", "driver 1.2.3", "2001-02-03", "Nsight Compute 2025.3.1.0", "ncu --csv"):
            self.assertIn(fact, text)
        for label in (model.MEASURED, model.MODELLED, model.NOT_AVAILABLE):
            self.assertIn(f"*{label}*", text)
        self.assertNotIn(str(self.folder), text)
        written = self.folder / "analysis.md"
        written.write_text(text, encoding="utf-8")
        self.assertEqual(links.broken(written), [])
        for block in re.findall(r"(?:^\|.*\n)+", text, re.M):  # every row of a table has its heading's columns
            self.assertEqual(len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}), 1, block)

    def test_the_same_run_gives_the_same_bytes(self):
        self.assertEqual(self.text(made_up()), self.text(made_up()))

    @unittest.skipUnless(draw.available(), "the chart needs matplotlib")
    def test_the_chart(self):
        from analysis import roofline

        bare = made_up()
        for shape in bare["shapes"]:
            shape["counters"], shape["time"] = {}, None
        only_decode = made_up()
        only_decode["shapes"] = only_decode["shapes"][5:]
        for run in (made_up(), made_up(HOPPER_RESOURCES), bare, only_decode):
            roofline.draw(run, self.folder / "a.svg")
            roofline.draw(run, self.folder / "b.svg")
            self.assertEqual((self.folder / "a.svg").read_bytes(), (self.folder / "b.svg").read_bytes())
        self.assertIn("roofline.svg)", self.text(made_up(), self.folder / "images/roofline.svg"))

    def test_bad_input_is_named(self):
        for change, words in (
            (lambda run: run.update(format=7), "format is not 1"),
            (lambda run: run["context"].pop("gpu"), "context: gpu is missing"),
            (lambda run: run.update(shapes=[]), "shapes is missing or empty"),
            (lambda run: run["shapes"][0].pop("resources"), "resources is missing"),
            (lambda run: run["shapes"][0].update(name="prefill/x"), "prefill/x"),
        ):
            run = made_up()
            change(run)
            with self.assertRaisesRegex(page.PageError, words):
                self.text(run)

    def test_committed_page_is_what_its_result_makes(self):
        committed = ROOT / "docs/analysis.md"
        text = committed.read_text(encoding="utf-8")
        made = re.search(r"^python3 benchmarks/analyse.py --from (\S+)$", text, re.M)
        self.assertTrue(made, "no command in docs/analysis.md")
        source = ROOT / made[1]
        again = page.text(page.read(source), source, committed, ROOT / "docs/images/roofline.svg", ROOT)
        self.assertEqual(
            text, again, "docs/analysis.md was edited by hand, or analyse.py changed: run the command at its end again"
        )


BENCH = r"""#!{python}
import json, sys
words = sys.argv[1:]
names = [words[i + 1] for i, word in enumerate(words) if word == "--shape"]
context = dict(gpu="NVIDIA Imaginary", driver="1.2.3", cuda="13.0", date="2001-02-03", compute_capability="9.0", host_name="secret")
if "--resources" in words:
    kinds = {resources}
    made = dict(context=context, device={device}, shapes=[dict(kinds[name.split("/")[0]], name=name) for name in names])
else:
    entry = lambda name, **more: dict(name=name + "/iterations:1/manual_time", run_type="iteration", median_us=100.0, **more)
    made = dict(context=context, benchmarks=[entry(name, GBps=1.0) for name in names] + [entry("ceiling/exp2", Gops=2400.0)])
    made["benchmarks"][0].update(error_occurred=True, error_message="no memory")
json.dump(made, open(words[words.index("--json") + 1], "w"))
"""
NCU = r"""#!{python}
import sys
if "--version" in sys.argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)")
    sys.exit()
names = sys.argv[sys.argv.index("--metrics") + 1].split(",")
quoted = lambda fields: ",".join('"%s"' % field for field in fields)
print("==PROF== Connected")
print(quoted(["ID", *names]))
print(quoted(["", *["" for _ in names]]))
print(quoted(["0", *["1,000" for _ in names]]))
"""


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        resources = {"prefill": PREFILL_RESOURCES, "decode": DECODE_RESOURCES}
        bench = BENCH.replace("{resources}", repr(resources)).replace("{device}", repr(DEVICE))
        for name, text in (("strobe_bench", bench), ("ncu", NCU)):
            file = self.folder / name
            file.write_text(text.replace("{python}", sys.executable), encoding="utf-8")
            file.chmod(0o755)

    def analyse(self, *words):
        return subprocess.run(
            [sys.executable, "-B", str(ROOT / "benchmarks/analyse.py"), *map(str, words)], capture_output=True, text=True
        )

    def test_from_the_gpu_machine_to_the_page(self):
        stored, written = self.folder / "analysis.json", self.folder / "analysis.md"
        done = self.analyse("--bin", self.folder / "strobe_bench", "--ncu", self.folder / "ncu", "--json", stored)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no memory", done.stderr)
        run = json.loads(stored.read_text(encoding="utf-8"))
        self.assertEqual([shape["name"] for shape in run["shapes"]], list(measure.SHAPES))
        self.assertEqual(set(run["shapes"][0]["counters"]), set(counters.METRICS))
        self.assertIsNone(run["shapes"][0]["time"])
        self.assertNotRegex(stored.read_text(encoding="utf-8"), f"secret|{re.escape(str(self.folder))}")
        self.assertRegex(run["commands"][-1], r"^ncu .*'regex:\(prefill\|decode\)_sm\(80\|90a\)' .* strobe_bench --shape \S+ --calls 3$")
        done = self.analyse("--from", stored, "--page", written, "--no-chart")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("# Where the time goes", written.read_text(encoding="utf-8"))

    def test_what_is_wrong_is_named(self):
        for words, said in (
            (["--from", self.folder / "none.json"], "No such file"),
            (["--bin", self.folder / "none", "--json", self.folder / "x"], "--bin"),
            (["--bin", self.folder / "ncu", "--json", self.folder / "x", "--ncu", self.folder / "none"], "--ncu"),
            (["--bin", self.folder / "ncu"], "--json"),
            ([], "--from"),
            (["--bin", "/bin/true", "--ncu", self.folder / "ncu", "--json", self.folder / "x"], "wrote no figures"),
        ):
            done = self.analyse(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()

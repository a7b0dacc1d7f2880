# SPDX-License-Identifier: MIT
"""Tests of benchmarks/report.py. Python alone: no GPU, and matplotlib only for what draws.

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
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(pathlib.Path(__file__).parent)]

import made_up  # noqa: E402
from report import agreement, cases, charts, draw, links, page, read, tables  # noqa: E402

PREFILL = "prefill/fp16/B:4/Hq:32/Hkv:32/Sq:4096/Sk:4096/D:64/causal:1"
WINDOW = "prefill/bf16/B:4/Hq:16/Hkv:16/Sq:4096/Sk:4096/D:64/causal:1/mask:window1024"
DECODE = "decode/fp16/B:8/Hq:32/Hkv:8/Sq:1/Sk:1024/D:128/kv:fp16/page:0"
PAGED = "decode/fp16/B:8/Hq:32/Hkv:8/Sq:1/Sk:1024/D:128/kv:fp16/page:16"
FIXED = DECODE + "/policy:fixed256"
SMALL = [PREFILL, WINDOW, DECODE, PAGED, FIXED]


class Files(unittest.TestCase):
    """A temporary folder, and the program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        silent = unittest.mock.patch.object(read, "note")
        silent.start()
        self.addCleanup(silent.stop)

    def file(self, name, data):
        path = self.folder / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    def run_report(self, *arguments):
        return subprocess.run(
            [sys.executable, str(ROOT / "benchmarks/report.py"), *map(str, arguments)], capture_output=True, text=True
        )

    def stored(self, strobe=None, peers=None, name="stored.json"):
        """The path of a merged result."""
        files = [
            (self.file("strobe.json", strobe or made_up.strobe(SMALL)), "strobe"),
            (self.file("peers.json", peers or made_up.peers(SMALL)), None),
        ]
        path = self.folder / name
        read.write(read.merge(files), path)
        return path

    def results(self, **data):
        return read.read_stored(self.stored(**data))


class Names(unittest.TestCase):
    def test_every_name_of_the_grids_parses_and_has_its_table(self):
        grids = [cases.parse(name).grid for name in (*made_up.prefill_names(), *made_up.decode_names())]
        self.assertEqual(
            {grid: grids.count(grid) for grid in grids},
            {"prefill": 36, "twelve-heads": 24, "variants": 14, "decode": 71, "caches": 213},
        )

    def test_fields(self):
        case = cases.parse(PREFILL)
        self.assertEqual(
            (case.kind, case.type, case.batch, case.q_heads, case.q_len, case.head_dim, case.causal, case.metric),
            ("prefill", "fp16", 4, 32, 4096, 64, 1, "TFLOPS"),
        )
        self.assertEqual(cases.parse(WINDOW).variant, "window 1024")
        self.assertEqual(cases.parse(PREFILL + "/score:softcap").variant, "causal, soft cap")
        self.assertEqual([cases.parse(name).cache for name in (DECODE, PAGED, FIXED)], ["strided", "pages of 16", "fixed 256"])
        self.assertEqual([cases.parse(name).base() for name in (DECODE, PAGED, FIXED)], [DECODE] * 3)
        self.assertEqual(
            [
                cases.parse(name).metric
                for name in ("ceiling/matmul/fp16/N:8192", "ceiling/copy/MB:1024", "ceiling/read/MB:1024", "ceiling/exp2")
            ],
            ["TFLOPS", "GBps", "GBps", "Gops"],
        )

    def test_other_shapes_are_other(self):
        for name in (
            PREFILL.replace("B:4", "B:3"),
            PREFILL.replace("Sk:4096", "Sk:8192"),
            DECODE.replace("Sq:1/", "Sq:4/"),
            PREFILL + "/score:alibi",
        ):
            self.assertEqual(cases.parse(name).grid, "other", name)

    def test_wrong_names(self):
        for name in (
            "",
            "prefill",
            PREFILL + "/",
            PREFILL.replace("causal:1", "causal:2"),
            PREFILL.replace("/B:4", ""),
            "ceiling/write/MB:1",
            DECODE.replace("Sk:1024", "Sk:many"),
            "floor/MB:1",
        ):
            with self.assertRaises(ValueError, msg=name):
                cases.parse(name)

    def test_suffixes(self):
        for suffix in (
            "",
            "/manual_time",
            "/iterations:9/manual_time",
            "/min_time:0.500/repeats:3/manual_time",
            "/real_time/threads:1",
        ):
            self.assertEqual(cases.strip_suffixes(DECODE + suffix), DECODE)

    def test_slug(self):
        self.assertEqual(cases.slug(PREFILL), "prefill-fp16-b4-hq32-hkv32-sq4096-sk4096-d64-causal1")
        names = [*made_up.prefill_names(), *made_up.decode_names()]
        self.assertEqual(len({cases.slug(name) for name in names}), len(names))


class Reading(Files):
    def wrong(self, change, *said, default="strobe"):
        """Bad input: a change of a good file's first entry, or of the file, is an error that says all of these."""
        data = made_up.strobe(SMALL)
        change(data)
        path = self.file("bad.json", data)
        with self.assertRaises(read.InputError) as caught:
            read.read_raw(path, default)
        for text in (str(path), *said):
            self.assertIn(text, str(caught.exception))

    def test_row(self):
        _, rows, refused = read.read_raw(self.file("a.json", made_up.strobe([DECODE])), "strobe")
        self.assertEqual(
            list(rows[0]),
            ["name", "provider", "median_us", "low_us", "high_us", "samples", "GBps", "floor_us", "fraction", "label"],
        )
        self.assertEqual((rows[0]["name"], rows[0]["provider"], rows[0]["samples"], refused), (DECODE, "strobe", 9, []))

    def test_unknown_keys_and_aggregates_are_ignored(self):
        data = made_up.strobe([DECODE])
        data["benchmarks"][0]["whatever"] = float("nan")
        data["benchmarks"].append({"name": DECODE + "/manual_time_mean", "run_type": "aggregate", "aggregate_name": "mean"})
        self.assertEqual(len(read.read_raw(self.file("a.json", data), "strobe")[1]), 1)

    def test_numbers(self):
        for field in ("median_us", "low_us", "high_us", "samples", "TFLOPS"):
            self.wrong(lambda data: data["benchmarks"][0].pop(field), PREFILL, field, "missing")
        for value, said in (
            (float("nan"), "nan"),
            (float("inf"), "inf"),
            (-1.0, "-1.0"),
            (0, "0"),
            ("7", "'7'"),
            (True, "True"),
            (None, "missing"),
        ):
            self.wrong(lambda data: data["benchmarks"][0].update(median_us=value), PREFILL, "median_us", said)
        self.wrong(lambda data: data["benchmarks"][0].update(fraction=float("nan")), PREFILL, "fraction", "nan")
        for field in ("floor_us", "fraction", "GBps"):
            self.wrong(lambda data: data["benchmarks"][2].pop(field), DECODE, field, "missing")

    def test_structure(self):
        self.wrong(lambda data: data.pop("benchmarks"), "benchmarks", "missing")
        self.wrong(lambda data: data.pop("context"), "context", "missing")
        self.wrong(lambda data: data.update(benchmarks=[3]), "benchmarks[0]", "not an object")
        self.wrong(lambda data: data["benchmarks"][1].pop("name"), "benchmarks[1]", "name", "missing")
        self.wrong(lambda data: data["benchmarks"][1].update(name="prefill/fp8"), "benchmarks[1]", "prefill/fp8")
        self.wrong(lambda data: data["benchmarks"][0].update(provider="fa9"), PREFILL, "provider", "'fa9'")
        self.wrong(lambda data: None, PREFILL, "provider", "missing", default=None)
        for field in ("gpu", "date", "program", "command"):
            self.wrong(lambda data: data["context"].pop(field), "context", field, "missing")
        self.wrong(lambda data: data["context"].update(date="yesterday"), "date", "yesterday")
        for option in ("--hot", "--bound 4096"):
            self.wrong(lambda data: data["context"].update(command=f"strobe_bench {option}"), "command", option.split()[0])

    def test_files(self):
        for path, said in (
            (self.folder / "none.json", "No such file"),
            (self.file("a.json", '{"context": '), "not JSON"),
            (self.file("b.json", "[]"), "not a JSON object"),
        ):
            with self.assertRaises(read.InputError) as caught:
                read.read_raw(path, "strobe")
            self.assertIn(said, str(caught.exception))

    def test_refused(self):
        data = made_up.peers([])
        for old_or_new in (
            {"error_occurred": True, "error_message": "no  kernel\nfor it"},
            {"skipped": True, "skip_message": "no kernel for it"},
        ):
            data["benchmarks"].append({"name": DECODE + "/manual_time", "provider": "fa3", **old_or_new})
        data["context"]["refused"] = [{"name": DECODE, "provider": "fa3", "why": "no kernel for it"}]
        _, _, refused = read.read_raw(self.file("a.json", data), None)
        self.assertEqual(refused, [{"name": DECODE, "provider": "fa3", "reason": "no kernel for it"}] * 3)


class Merging(Files):
    def merge(self, *datas):
        return read.merge([(self.file(f"{i}.json", data), default) for i, (data, default) in enumerate(datas)])

    def test_context_keeps_facts_and_no_folders(self):
        stored = self.merge((made_up.strobe(SMALL), "strobe"), (made_up.peers(SMALL), None))
        self.assertEqual(
            (stored["context"]["gpu"], stored["context"]["date"], stored["context"]["sm_count"]),
            ("Made-up GPU 1000", "2001-02-03", "132"),
        )
        self.assertEqual([run["program"] for run in stored["context"]["runs"]], ["strobe_bench", "peers.py"])
        self.assertEqual(stored["context"]["runs"][0]["command"], "strobe_bench --grid all --benchmark_out=strobe.json")
        for text in ("secret", "/home", "someone"):
            self.assertNotIn(text, json.dumps(stored))

    def test_a_filter_in_a_command_survives(self):
        data = made_up.strobe(SMALL)
        data["context"]["command"] = "./build/strobe_bench --benchmark_filter='.*/D:64/.*causal:1' prefill/fp16/B:1/Hq:1"
        self.assertEqual(
            self.merge((data, "strobe"))["context"]["runs"][0]["command"],
            "./build/strobe_bench --benchmark_filter='.*/D:64/.*causal:1' prefill/fp16/B:1/Hq:1",
        )

    def test_later_file_wins_and_says_so(self):
        later = made_up.strobe([DECODE])
        later["benchmarks"][0]["median_us"] = 77.0
        for name, data in (("a.json", made_up.strobe(SMALL)), ("b.json", later)):
            self.file(name, data)
        done = self.run_report(
            "--strobe",
            self.folder / "a.json",
            "--strobe",
            self.folder / "b.json",
            "--results",
            self.folder,
            "--page",
            self.folder / "page.md",
            "--images",
            self.folder,
            "--no-charts",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rf"note: {DECODE} of strobe: .*b.json replaces .*a.json")
        results = read.read_stored(self.folder / "2001-02-03-made-up-gpu-1000.json")
        self.assertEqual(results.get(DECODE)["median_us"], 77.0)
        self.assertEqual(len(results.rows), len(SMALL))

    def test_a_figure_replaces_a_refusal(self):
        first, second = made_up.peers([]), made_up.peers([DECODE])
        first["benchmarks"] = [{"name": DECODE, "provider": "fa3", "error_occurred": True, "error_message": "busy"}]
        for files in (((first, None), (second, None)), ((second, None), (first, None))):
            stored = self.merge(*files)
            self.assertEqual(stored["refused"], [])
            self.assertIsNotNone(read.Results(stored).get(DECODE, "fa3"))

    def test_one_gpu_only(self):
        other = made_up.peers(SMALL)
        other["context"]["gpu"] = "Other GPU"
        with self.assertRaisesRegex(read.InputError, "1.json: context: gpu: 'Other GPU', but .*0.json has 'Made-up GPU 1000'"):
            self.merge((made_up.strobe(SMALL), "strobe"), (other, None))

    def test_fraction_from_the_ceiling_of_another_file(self):
        data = made_up.strobe([PREFILL])
        own = self.merge((data, "strobe"), (made_up.peers([]), None))
        self.assertAlmostEqual(read.Results(own).get(PREFILL)["fraction"], data["benchmarks"][0]["fraction"], 5)
        del data["benchmarks"][0]["fraction"]
        filled = self.merge((data, "strobe"), (made_up.peers([]), None))
        self.assertAlmostEqual(
            read.Results(filled).get(PREFILL)["fraction"], data["benchmarks"][0]["TFLOPS"] / made_up.MATMUL, 5
        )
        self.assertNotIn("fraction", read.Results(self.merge((data, "strobe"))).get(PREFILL))

    def test_stored_and_read_again(self):
        stored = self.merge((made_up.strobe(), "strobe"), (made_up.peers(), None))
        read.write(stored, self.folder / "a" / "b.json")
        results = read.read_stored(self.folder / "a" / "b.json")
        self.assertEqual(
            (results.context, results.rows, results.refused), (stored["context"], stored["rows"], stored["refused"])
        )

    def test_file_name(self):
        for gpu, slug in (
            ("NVIDIA H200", "h200"),
            ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
            ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ):
            self.assertEqual(read.file_name({"context": {"date": "2001-02-03", "gpu": gpu}}), f"2001-02-03-{slug}.json")

    def test_wrong_stored_results(self):
        good = json.loads(self.stored().read_text())

        def again(path):
            return lambda data: data["rows"].append(data["rows"][path])

        for change, said in (
            (lambda data: data.update(format=2), "format: 2 is not 1"),
            (lambda data: data.pop("rows"), "rows: missing"),
            (lambda data: data["rows"][0].pop("median_us"), "median_us: missing"),
            (again(0), "a second row of"),
            (lambda data: data["context"].pop("runs"), "runs: missing"),
            (lambda data: data.update(benchmarks=[]), "a raw file; merge it first"),
        ):
            data = copy.deepcopy(good)
            change(data)
            with self.assertRaisesRegex(read.InputError, re.escape(said)):
                read.read_stored(self.file("bad.json", data))


class Numbers(Files):
    def test_formats(self):
        self.assertEqual(
            [tables.microseconds(x) for x in (None, 1.234, 12.34, 123.45, 1234.5)], ["–", "1.23", "12.3", "123.5", "1234"]
        )
        self.assertEqual([tables.rate(x) for x in (None, 99.94, 751.4)], ["–", "99.9", "751"])
        self.assertEqual(
            [tables.ratio(None), tables.percent(0.876), tables.count(1234567)], ["–", "88 %", "1\u2009234\u2009567"]
        )

    def test_geometric_means_and_least(self):
        """Two cells, ratios 2 and 0.5 to FA2, 4 and 0.5 to cuDNN."""
        names = [PREFILL, PREFILL.replace("causal:1", "causal:0")]
        strobe, peers = made_up.strobe(names), made_up.peers([])
        for name, us, fa2, cudnn in zip(names, (10.0, 20.0), (20.0, 10.0), (40.0, 10.0)):
            next(entry for entry in strobe["benchmarks"] if entry["run_name"] == name)["median_us"] = us
            peers["benchmarks"] += [
                {**made_up.entry(name, time, TFLOPS=1.0), "provider": provider}
                for time, provider in ((fa2, "fa2"), (cudnn, "cudnn"))
            ]
        results = self.results(strobe=strobe, peers=peers)
        line = next(
            line for line in tables.summary(results).splitlines() if line.startswith("| Prefill, 16k tokens | 2 |")
        ).split(" | ")
        least = f"[0.500](#{cases.slug(names[1])})"
        self.assertEqual(line[2:5], [f"1.000, least {least}", f"1.414, least {least}", f"1.000, least {least}"])

    def test_comparison_marks_the_fastest_and_shows_gaps(self):
        results = self.results()
        text = tables.comparison(results, results.grid("variants"), {"D": lambda case: case.head_dim}, "TFLOPS", "of the limit")
        self.assertEqual(text.splitlines()[0], "| D | strobe | FlexAttention | best peer / strobe | of the limit |")
        self.assertEqual(text.splitlines()[2].count("**"), 2)
        peers = made_up.peers(SMALL)
        peers["benchmarks"] = [
            entry for entry in peers["benchmarks"] if entry["provider"] != "fa2" or "prefill" not in entry["name"]
        ]
        peers["benchmarks"] += [{**made_up.prefill(PREFILL.replace("causal:1", "causal:0"), "fa2"), "provider": "fa2"}]
        results = self.results(peers=peers)
        lines = tables.comparison(
            results, results.grid("prefill"), {"D": lambda case: case.variant}, "TFLOPS", "of the limit"
        ).splitlines()
        self.assertRegex(lines[2], r"^\| <a id=\"[\w-]*causal0\"></a>full \| – \| .* \| – \| – \| – \| – \|$")
        self.assertRegex(lines[3], r"</a>causal \| [\d*]+ \| – \| ")

    def test_caches_over_strided(self):
        strobe = made_up.strobe([DECODE, PAGED, FIXED])
        for entry, us in zip(strobe["benchmarks"], (10.0, 10.5, 15.0)):
            entry["median_us"] = us
        total, rows = tables.caches(self.results(strobe=strobe))
        self.assertIn("| 32/8 | 128 | 8 | 1024 | 10.0 |", rows)
        self.assertIn("10.5 (1.05)", rows)
        self.assertIn("15.0 (1.50)", rows)
        self.assertIn(f"| fixed 256 | 1 | 1.500 | [1.500](#{cases.slug(FIXED)}) |", total)


class Page(Files):
    def make(self, *more, name="page.md"):
        done = self.run_report("--from", self.stored(), "--page", self.folder / name, "--images", self.folder / "images", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / name).read_text()

    def test_page(self):
        text = self.make("--no-charts")
        for name in SMALL:
            self.assertEqual(text.count(f'<a id="{cases.slug(name)}"></a>'), 1, name)
        for anchor in (
            "summary",
            "method",
            "prefill",
            "twelve-heads",
            "variants",
            "decode",
            "caches",
            "ceilings",
            "refused",
            "agreement",
        ):
            self.assertEqual(text.count(f'<a id="{anchor}"></a>'), 1, anchor)
        self.assertIn("Made-up GPU 1000", text)
        self.assertIn("strobe_bench --grid all --benchmark_out=strobe.json\n", text)
        self.assertNotIn("![", text)
        self.assertNotIn("$", text)
        self.assertNotIn("None", text)
        self.assertEqual(links.broken(self.folder / "page.md"), [])

    def test_full_grid_has_every_cell_once(self):
        self.stored(strobe=made_up.strobe(), peers=made_up.peers(), name="full.json")
        done = self.run_report("--from", self.folder / "full.json", "--page", self.folder / "full.md", "--no-charts")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.folder / "full.md").read_text()
        for name in (*made_up.prefill_names(), *made_up.decode_names()):
            self.assertEqual(text.count(f'id="{cases.slug(name)}"'), 1, name)
        self.assertEqual(len(links._ID.findall(text)), len(set(links._ID.findall(text))))
        self.assertIn("no \\| kernel in lib.so", text)
        self.assertEqual(links.broken(self.folder / "full.md"), [])

    def test_shapes_outside_the_grids_and_paged_peers_are_shown(self):
        other = PREFILL.replace("B:4", "B:3")
        peers = made_up.peers(SMALL)
        peers["benchmarks"].append({**made_up.decode(PAGED, "fa3"), "provider": "flashinfer"})
        path = self.stored(strobe=made_up.strobe([*SMALL, other]), peers=peers)
        done = self.run_report("--from", path, "--page", self.folder / "page.md", "--no-charts")
        text = (self.folder / "page.md").read_text()
        self.assertEqual(text.count(f'id="{cases.slug(other)}"'), 1, done.stderr)
        self.assertIn("## Other shapes", text)
        self.assertRegex(text, r"\| pages of 16 \| 32/8 \| 128 \| 8 \| 1024 \| [\d.]+ \| \*\*[\d.]+\*\* \| [\d.]+ \|")
        self.assertEqual(text.count(f'id="{cases.slug(PAGED)}"'), 1)

    def test_peers_alone_and_strobe_alone(self):
        for flag, data in (("--strobe", made_up.strobe(SMALL)), ("--peers", made_up.peers(SMALL))):
            done = self.run_report(
                flag, self.file("one.json", data), "--results", self.folder, "--page", self.folder / "page.md", "--no-charts"
            )
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_same_input_same_page(self):
        self.assertEqual(self.make("--no-charts"), self.make("--no-charts"))

    @unittest.skipIf(draw.available(), "matplotlib is installed, so its lack cannot be tried")
    def test_without_matplotlib_the_result_is_stored_all_the_same(self):
        page = self.folder / "page.md"
        done = self.run_report("--strobe", self.file("a.json", made_up.strobe(SMALL)), "--results", self.folder, "--page", page)
        self.assertEqual(done.returncode, 2)
        self.assertIn("2001-02-03-made-up-gpu-1000.json: charts need matplotlib", done.stderr)
        self.assertEqual(len(read.read_stored(self.folder / "2001-02-03-made-up-gpu-1000.json").rows), len(SMALL))
        self.assertFalse(page.exists())

    def test_bad_input_ends_with_2(self):
        data = made_up.strobe(SMALL)
        data["benchmarks"][0]["median_us"] = -3
        done = self.run_report("--strobe", self.file("bad.json", data), "--results", self.folder / "results", "--no-charts")
        self.assertEqual(
            (done.returncode, done.stderr),
            (2, f"report.py: {self.folder}/bad.json: {PREFILL}: median_us: -3 is not a positive number\n"),
        )
        self.assertFalse((self.folder / "results").exists())
        self.assertEqual(self.run_report().returncode, 2)
        self.assertEqual(self.run_report("--from", "a", "--check-links", "b").returncode, 2)


class Charts(Files):
    def test_what_is_shown(self):
        """Without matplotlib."""
        made = {chart.file: chart for chart in charts.chart_list(self.results(strobe=made_up.strobe(), peers=made_up.peers()))}
        self.assertEqual(len(made), 6)
        self.assertEqual(
            [panel.title for panel in made["benchmarks-prefill.svg"].panels],
            [f"D {dim}, {mask}" for mask in ("full", "causal") for dim in (64, 128, 256)],
        )
        self.assertEqual(
            [series.label for series in made["benchmarks-prefill.svg"].panels[0].series],
            ["FA2", "cuDNN", "FA3", "strobe", "matrix product, 750 TFLOP/s"],
        )
        self.assertEqual(len(made["benchmarks-decode.svg"].panels), 12)
        self.assertEqual(made["benchmarks-decode.svg"].panels[0].series[-1].label, "reading K and V only")
        best = made["benchmarks-decode-tokens.svg"].panels[0]
        self.assertEqual([text for _, _, text in best.texts], ["batch 1", "batch 8", "batch 64"])

    @unittest.skipUnless(draw.available(), "matplotlib is not installed, so no chart is drawn")
    def test_drawn_twice_the_same_and_small(self):
        results = self.results(strobe=made_up.strobe(), peers=made_up.peers())
        made = charts.chart_list(results)
        for folder in ("one", "two"):
            draw.draw_all(made, self.folder / folder)
        for chart in made:
            one, two = ((self.folder / folder / chart.file).read_bytes() for folder in ("one", "two"))
            self.assertEqual(one, two, chart.file)
            self.assertLess(len(one), 150_000, chart.file)
            self.assertTrue(one.rstrip().endswith(b"</svg>"))
            self.assertNotIn(b"dc:date", one)

    @unittest.skipUnless(draw.available(), "matplotlib is not installed, so no chart is drawn")
    def test_page_with_charts_of_few_cells(self):
        done = self.run_report(
            "--from", self.stored(), "--page", self.folder / "docs/page.md", "--images", self.folder / "docs/images"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = re.findall(r"!\[.+\]\((.+)\)", (self.folder / "docs/page.md").read_text())
        self.assertEqual(sorted(shown), sorted(f"images/{path.name}" for path in (self.folder / "docs/images").iterdir()))


class Agreement(Files):
    def reference(self, rows, gpu="Made-up GPU 1000"):
        data = {"format": 1, "source": "Made up.", "context": {"gpu": gpu, "date": "2001-01-01"}, "rows": rows}
        return self.file("reference.json", data)

    def test_by_time_and_by_rate(self):
        results = self.results()
        time, rate, floor = (
            results.get(DECODE, "cudnn")["median_us"],
            results.get(PREFILL, "fa2")["TFLOPS"],
            results.floor_us(DECODE),
        )
        path = self.reference(
            [
                {"name": DECODE, "provider": "cudnn", "median_us": time / 1.1},
                {"name": PREFILL, "provider": "fa2", "TFLOPS": rate * 1.04},
                {"name": DECODE, "provider": "floor", "median_us": floor},
                {"name": FIXED, "provider": "fa3", "median_us": 1.0},
            ]
        )
        found = agreement.cells(results, read.read_stored(path, reference=True), path)
        self.assertEqual(
            [(cell.case.name, cell.provider, round(cell.ratio, 3)) for cell in found],
            [(PREFILL, "fa2", 1.04), (DECODE, "cudnn", 1.1), (DECODE, "floor", 1.0)],
        )
        lines, outside = agreement.tables(found)
        self.assertIn(f"| all | 3 | 2 | 1.046 | [1.100](#{cases.slug(DECODE)}) |", lines)
        self.assertEqual(len(outside.splitlines()), 3)
        done = self.run_report(
            "--from", self.folder / "stored.json", "--reference", path, "--page", self.folder / "page.md", "--no-charts"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("As timed, outside of 5 %:", (self.folder / "page.md").read_text())
        self.assertEqual(links.broken(self.folder / "page.md"), [])

    def test_reference_between_two_ways_of_timing(self):
        results = self.results()
        fa2, cudnn = (results.get(PREFILL, peer)["median_us"] for peer in ("fa2", "cudnn"))
        path = self.reference(
            [
                {"name": PREFILL, "provider": "fa2", "median_us": fa2 * 1.2},
                {"name": PREFILL, "provider": "cudnn", "median_us": cudnn * 1.2},
            ]
        )
        reference = read.read_stored(path, reference=True)
        stored = json.loads((self.folder / "stored.json").read_text())
        for row in stored["rows"]:
            if row["provider"] == "fa2":
                row["median_us"] *= 1.19
        alone = self.folder / "stored-peers-alone.json"
        alone.write_text(json.dumps(stored))
        first, again = (agreement.cells(some, reference, path) for some in (results, read.read_stored(alone)))
        self.assertEqual(agreement.between(first, again), (2, 1))
        self.assertEqual(agreement.between(first, first), (2, 0))
        arguments = ["--from", self.folder / "stored.json", "--reference", path, "--page", self.folder / "page.md", "--no-charts"]
        done = self.run_report(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("In 1 of the 2 cells timed both ways", (self.folder / "page.md").read_text())
        alone.unlink()
        self.run_report(*arguments)
        self.assertNotIn("timed both ways", (self.folder / "page.md").read_text())

    def with_launch(self, names, provider, extra, slower=lambda us: 1.0):
        """Cells of a made-up reference: `extra` us more a call, then `slower` times that. Prefill by rate, decode by time."""
        results = self.results(strobe=made_up.strobe(names), peers=made_up.peers(names))
        rows = []
        for name in names:
            us = results.get(name, provider)["median_us"]
            there, rate = (us + extra) * slower(us), results.get(name, provider).get("TFLOPS")
            figure = {"TFLOPS": rate * us / there} if rate else {"median_us": there}
            rows.append({"name": name, "provider": provider, **figure})
        self.path = self.reference(rows)
        return agreement.cells(results, read.read_stored(self.path, reference=True), self.path)

    def test_a_launch_explains_all(self):
        of = lambda grid, names: [name for name in names if cases.parse(name).grid == grid]
        for title, names, provider in (
            ("prefill, 16k tokens: cuDNN", of("prefill", made_up.prefill_names()), "cudnn"),
            ("prefill, 12 heads: FA2", of("twelve-heads", made_up.prefill_names()), "fa2"),
            ("masks and scores: FlexAttention", of("variants", made_up.prefill_names()), "flex"),
            ("decode: FA2", of("decode", made_up.decode_names()), "fa2"),
        ):
            plain = self.with_launch(names, provider, 0)
            extra = round(0.1 * max(cell.us for cell in plain), 1)  # no cell is within the tolerance without it
            found = self.with_launch(names, provider, extra)
            self.assertAlmostEqual(agreement.launch(found), extra, delta=1e-4 * extra)
            lines = agreement.launches(found).splitlines()
            self.assertEqual(len(lines), 3)
            shown, n = tables.microseconds(extra), len(names)
            self.assertRegex(lines[2], rf"^\| {title} \| {n} \| 0 \| {shown} us \| {n} \| \[1\.000\]\(#\S+\) \|$")
            self.assertRegex(agreement.launches(plain), rf"\| {n} \| {n} \| -?0\.00 us \| {n} \|")

    def test_long_cells_do_not_decide_the_launch(self):
        names = [name for name in made_up.prefill_names() if cases.parse(name).grid == "prefill"]
        middle = sorted(cell.us for cell in self.with_launch(names, "fa2", 0))[len(names) // 2]
        found = self.with_launch(names, "fa2", 20, lambda us: 1.3 if us >= middle else 1.0)
        self.assertAlmostEqual(agreement.launch(found), 20, delta=0.01)
        self.assertIn(f"| 20.0 us | {len(names) // 2} | [0.7", agreement.launches(found))

    def test_a_group_without_cells_has_no_line(self):
        found = self.with_launch([DECODE], "cudnn", 5)
        self.assertEqual(len(agreement.launches(found).splitlines()), 3)
        self.assertNotIn("prefill,", agreement.launches(found))
        arguments = ["--from", self.folder / "stored.json", "--reference", self.path, "--page", self.folder / "page.md"]
        done = self.run_report(*arguments, "--no-charts")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| decode: cuDNN | 1 | 0 | 5.00 us | 1 | [1.000]", (self.folder / "page.md").read_text())
        self.assertEqual(links.broken(self.folder / "page.md"), [])
        floor = self.results().floor_us(DECODE)
        self.reference([{"name": DECODE, "provider": "floor", "median_us": floor}])
        self.run_report(*arguments, "--no-charts")
        text = (self.folder / "page.md").read_text()
        self.assertIn("As timed, none is outside of 5 %.", text)
        self.assertNotIn("contains its launch", text)

    def test_another_gpu_is_an_error(self):
        path = self.reference([{"name": DECODE, "provider": "cudnn", "median_us": 1.0}], gpu="Other GPU")
        done = self.run_report("--from", self.stored(), "--reference", path, "--page", self.folder / "page.md", "--no-charts")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'Other GPU', but the result is from 'Made-up GPU 1000'", done.stderr)
        self.assertFalse((self.folder / "page.md").exists())

    def test_reference_needs_figures_and_a_source(self):
        for rows, said in (
            ([{"name": DECODE, "provider": "cudnn"}], "GBps: missing"),
            ([{"name": DECODE, "provider": "cudnn", "median_us": -1}], "median_us: -1"),
        ):
            with self.assertRaisesRegex(read.InputError, said):
                read.read_stored(self.reference(rows), reference=True)
        with self.assertRaisesRegex(read.InputError, "source: missing"):
            read.read_stored(self.stored(), reference=True)

    def test_the_reference_in_the_repository(self):
        reference = read.read_stored(ROOT / "benchmarks/reference/h200-peers.json", reference=True)
        self.assertEqual(reference.context["gpu"], "NVIDIA H200")
        count = lambda provider, grid: sum(
            row["provider"] == provider and cases.parse(row["name"]).grid == grid for row in reference.rows
        )
        self.assertEqual([count(provider, "prefill") for provider in ("fa2", "cudnn", "fa3")], [36, 36, 36])
        self.assertEqual([count(provider, "twelve-heads") for provider in ("fa2", "cudnn")], [24, 24])
        self.assertEqual([count(provider, "decode") for provider in ("fa2", "cudnn", "floor")], [71, 71, 78])
        self.assertEqual(count("flex", "variants"), 14)


class Comparing(Files):
    def compare(self, change, *arguments):
        """Exit code and output of an old result against a changed one."""
        old = self.stored(name="old.json")
        data = json.loads(old.read_text())
        change(data)
        done = self.run_report("--compare", old, self.file("new.json", data), *arguments)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stdout + done.stderr

    @staticmethod
    def row(data, name, provider="strobe"):
        return next(row for row in data["rows"] if (row["name"], row["provider"]) == (name, provider))

    def scale(self, name, factor, *fields):
        def change(data):
            for field in fields:
                self.row(data, name)[field] *= factor

        return change

    def test_the_same(self):
        code, text = self.compare(lambda data: None)
        self.assertEqual(code, 0, text)
        self.assertIn("slower by more than 5 %: 0 of 5", text)

    def test_slower_and_the_tolerance(self):
        change = self.scale(DECODE, 1 / 1.08, "fraction")
        code, text = self.compare(change)
        self.assertEqual(code, 1)
        self.assertRegex(text, rf"{DECODE} .* of the limit +8.0 % slower")
        self.assertEqual(self.compare(change, "--tolerance", "0.1")[0], 0)

    def test_faster(self):
        code, text = self.compare(self.scale(DECODE, 1.25, "fraction"))
        self.assertEqual(code, 0)
        self.assertRegex(text, rf"{DECODE} .* 25.0 % faster")

    def test_another_machine_compares_by_the_limit(self):
        def change(data):
            data["context"]["gpu"] = "Other GPU"
            for row in data["rows"]:
                row["median_us"] *= 3

        self.assertEqual(self.compare(change)[0], 0)

    def test_without_fraction(self):
        def change(data, factor=1.2, gpu="Made-up GPU 1000"):
            del self.row(data, PREFILL)["fraction"]
            self.row(data, PREFILL)["median_us"] *= factor
            data["context"]["gpu"] = gpu

        code, text = self.compare(change)
        self.assertEqual(code, 1)
        self.assertRegex(text, rf"{PREFILL} .* us, no fraction +20.0 % slower")
        code, text = self.compare(lambda data: change(data, gpu="Other GPU"))
        self.assertEqual(code, 0)
        self.assertIn(f"not comparable (no fraction, another GPU): 1\n  {PREFILL}", text)

    def test_gone_and_added(self):
        code, text = self.compare(lambda data: data["rows"].remove(self.row(data, PAGED)))
        self.assertEqual(code, 1)
        self.assertIn(f"gone: 1\n  {PAGED}", text)
        code, text = self.compare(lambda data: data["rows"].remove(self.row(data, PAGED)), "--subset")
        self.assertEqual(code, 0)
        self.assertNotIn(PAGED, text)
        self.assertEqual(self.compare(lambda data: data.update(rows=[]), "--subset")[0], 2)  # nothing compares
        added = DECODE.replace("B:8", "B:16")
        code, text = self.compare(lambda data: data["rows"].append({**self.row(data, DECODE), "name": added}))
        self.assertEqual(code, 0)
        self.assertIn(f"added: 1\n  {added}", text)

    def test_peers_and_ceilings_do_not_count(self):
        def change(data):
            self.row(data, DECODE, "cudnn")["median_us"] *= 2
            data["rows"].remove(self.row(data, DECODE, "fa2"))
            data["rows"].remove(self.row(data, "ceiling/exp2", "ceiling"))

        self.assertEqual(self.compare(change)[0], 0)

    def test_bad_input(self):
        code, text = self.compare(lambda data: self.row(data, DECODE).update(fraction=-1))
        self.assertEqual(code, 2)
        self.assertIn(f"new.json: {DECODE}: fraction: -1 is not a positive number", text)
        code, text = self.compare(lambda data: data.update(rows=[]))
        self.assertEqual(code, 1, text)  # all cells are gone
        self.assertEqual(self.run_report("--compare", self.stored(), self.folder / "none.json").returncode, 2)
        done = self.run_report(
            "--compare", self.stored(peers=made_up.peers([]), strobe=made_up.strobe([])), self.folder / "stored.json"
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("no cell of strobe that compares", done.stderr)
        self.assertEqual(
            self.run_report(
                "--compare", self.folder / "stored.json", self.folder / "stored.json", "--tolerance", "5"
            ).returncode,
            2,
        )


class Links(Files):
    def test_anchors(self):
        text = (
            '# A title, *with* `code`\n## Twice\n## Twice\n<a id="x"></a>\n'
            '```\n# no heading\n<a id="no"></a>\n```\n| <a id="row-1"></a>64 |\n'
        )
        self.assertEqual(links.anchors(text), {"a-title-with-code", "twice", "twice-1", "x", "row-1"})

    def test_broken(self):
        self.file("other.md", '<a id="here"></a>\n')
        page = self.file(
            "page.md",
            "[a](other.md#here) [b](other.md#gone)\n[c](#me) [d](none.md#x)\n`[e](other.md#code)` "
            "[f](https://example.org/a.md#x) [g](other.md) [h](x.cpp#L3)\n# me\n",
        )
        self.assertEqual(links.broken(page), [f"{page}:1: other.md has no anchor #gone", f"{page}:2: none.md is not there"])
        done = self.run_report("--check-links", page)
        self.assertEqual(done.returncode, 1)
        self.assertIn("other.md has no anchor #gone", done.stderr)
        self.assertEqual(self.run_report("--check-links", self.folder / "other.md").returncode, 0)


class Repository(unittest.TestCase):
    def test_links_of_the_pages(self):
        self.assertEqual(
            [line for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) for line in links.broken(path)], []
        )

    def test_committed_results_can_be_read(self):
        for path in sorted((ROOT / "benchmarks/results").glob("*.json")):
            if not path.stem.endswith("-analysis") and "format" in json.loads(path.read_text(encoding="utf-8")):
                read.read_stored(path)

    def test_committed_page_is_what_its_result_makes(self):
        committed = ROOT / "docs/benchmarks.md"
        if not committed.exists():
            self.skipTest("docs/benchmarks.md is not there yet")
        text = committed.read_text(encoding="utf-8")
        made = re.search(r"^python3 benchmarks/report.py --from (\S+)(?: --reference (\S+))?$", text, re.M)
        self.assertTrue(made, "no command in docs/benchmarks.md")
        source, reference = ROOT / made[1], made[2] and ROOT / made[2]
        results = read.read_stored(source)
        shown = charts.chart_list(results) if "![" in text else []
        alone = source.with_name(f"{source.stem}-peers-alone.json")
        again = page.text(
            results,
            source,
            committed,
            ROOT / "docs/images",
            shown,
            ROOT,
            reference and read.read_stored(reference, reference=True),
            reference,
            read.read_stored(alone) if alone.exists() else None,
            alone,
        )
        self.assertEqual(
            text, again, "docs/benchmarks.md was edited by hand, or report.py changed: run the command at its end again"
        )


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""examples/ladder/page.py on a made-up run: python3 -m unittest discover tests/python"""
import copy
import importlib.util
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("ladder_page", ROOT / "examples/ladder/page.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def made_up_run():
    """Step i makes 2^i TFLOP/s at every length, twice that when causal."""
    rows = []
    for i, step in enumerate(page.STEPS):
        for length in (512, 4096, 8192):
            for causal in (False, True):
                tflops = 2.0**i * (2 if causal else 1)
                rows.append({"step": step, "kind": "prefill", "S": length, "heads": 12, "causal": causal, "us": 1234.5,
                             "TFLOPS": tflops, "model_TFLOPS": 4 * tflops if i else None,
                             "rows_timed": length if i else 16, "max_error": 1.5e-7 * (i + 1), "tolerance": 2e-5,
                             "right": True, "note": "", "gpu": "Made-up GPU", "idea": "an idea", "limit": f"limit {i}"})
    for i, step in enumerate(page.DECODES):
        for length in (512, 8192):
            rows.append({"step": step, "kind": "decode", "Sk": length, "heads": 12, "causal": False, "us": 12.25,
                         "GBps": 100.0 * (i + 1), "model_GBps": 4800.0, "max_error": 2.5e-4, "tolerance": 2e-3,
                         "right": True, "note": f"{12 * length // 256} blocks of 256 keys", "gpu": "Made-up GPU",
                         "idea": "an idea", "limit": "a limit"})
    return {"context": {"gpu": "Made-up GPU", "driver": "1.2.3", "date": "2000-02-29", "command": "bash run.sh --json x"},
            "rows": rows}


def portable_run():
    """On a GPU that is no Hopper."""
    run = made_up_run()
    run["rows"] = [row for row in run["rows"] if row["step"] != "07_strobe_hopper"]
    return run


class ReadingResults(unittest.TestCase):
    def refused(self, change, *words):
        run = made_up_run()
        change(run)
        with self.assertRaises(page.BadResults) as caught:
            page.Results(run)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_speedups_are_over_the_step_before(self):
        self.assertEqual([speedup for _, speedup in page.Results(made_up_run()).ladder()], [None, 2, 2, 2, 2, 2, 2])

    def test_the_length_is_4096_or_the_largest_that_all_steps_have(self):
        run = made_up_run()
        self.assertEqual(page.Results(run).len, 4096)
        run["rows"] = [row for row in run["rows"] if not (row["step"] == "02_naive" and row["S"] == 4096)]
        self.assertEqual(page.Results(run).len, 8192)

    def test_a_step_that_the_gpu_does_not_run_is_left_out(self):
        self.assertEqual(page.Results(made_up_run()).steps, list(page.STEPS))
        self.assertEqual(page.Results(portable_run()).steps, list(page.STEPS[:-1]))
        self.assertEqual(len(page.Results(portable_run()).ladder()), 6)

    def test_a_wrong_result_is_refused(self):
        self.refused(lambda run: run["rows"][2].update(right=False, max_error=0.5), "01_cpu", "4096", "0.5")

    def test_host_execution_is_refused(self):
        self.refused(lambda run: run["rows"][8].update(us=None), "us is None", "host execution")

    def test_what_is_missing_is_named(self):
        self.refused(lambda run: run["context"].pop("date"), "context.date")
        self.refused(lambda run: run["rows"][3].pop("us"), "rows[3]", "us")
        self.refused(lambda run: run.update(rows=[r for r in run["rows"] if r["step"] != "04_fused"]), "04_fused")
        self.refused(lambda run: run.update(rows=[r for r in run["rows"] if r["kind"] != "decode"]), "decode")
        self.refused(lambda run: run["rows"][0].update(heads=3), "[3, 12]")

    def test_three_digits(self):
        self.assertEqual([page.digits(x) for x in (0.003124, 0.0437, 0.5, 4.567, 9.999, 45.67, 456.7, 4567)],
                         ["0.00312", "0.0437", "0.500", "4.57", "10.0", "45.7", "457", "4570"])

    def test_a_model_that_is_beaten_is_called_too_strict(self):
        row = made_up_run()["rows"][8]
        self.assertIn("25 % of it were reached", page.step_text(row, 2.0))
        self.assertIn("too strict", page.step_text({**row, "model_TFLOPS": row["TFLOPS"] / 2}, 2.0))


@unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib is not installed: the page and its charts are not tested")
class WritingThePage(unittest.TestCase):
    def written(self, run):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            page.write_page(copy.deepcopy(run), "x.json", out)
            return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    def test_the_page_shows_the_run(self):
        text = self.written(made_up_run())["ladder.md"].decode()
        for expected in ("Made-up GPU", "driver 1.2.3", "2000-02-29", "bash run.sh --json x", "page.py x.json",
                         "1.23 ms for 16 of 4096 rows a head", "| 3 tiled | 1.23 ms | 4.00 | 2.00x | 16.0 | 25 % |",
                         "384 blocks of 256 keys", "Limit: limit 5.", "Limit: limit 6.", "| 7 strobe, wgmma | 1.23 ms |"):
            self.assertIn(expected, text)
        self.assertNotIn("did not measure", text)
        self.assertNotIn("$", text)
        self.assertNotIn("left out", text)

    def test_a_run_without_hopper(self):
        text = self.written(portable_run())["ladder.md"].decode()
        self.assertIn("This run did not measure it.", text)
        self.assertNotIn("7 strobe", text)
        self.assertNotIn("limit 6", text)

    def test_what_was_left_out_is_said(self):
        run = made_up_run()
        for row in run["rows"]:
            if row["step"] == "02_naive" and row["S"] == 8192:
                for measured in ("us", "TFLOPS", "right", "max_error"):
                    del row[measured]
                row["skipped"] = "left out: a call would take about 1.4 s"
        text = self.written(run)["ladder.md"].decode()
        self.assertIn("- 2 naive, 8192 tokens, causal: left out: a call would take about 1.4 s.", text)
        self.assertIn("| 2 naive | 2.00 | 2.00 | - |", text)

    def test_links_lead_somewhere(self):
        files = self.written(made_up_run())
        for link in re.findall(r"\]\(([^)#:]+)\)", files["ladder.md"].decode()):
            self.assertTrue(link in files or (ROOT / "docs" / link).exists(), link)

    def test_the_same_run_gives_the_same_bytes(self):
        first, second = self.written(made_up_run()), self.written(made_up_run())
        self.assertEqual(sorted(first), ["images/ladder-decode.svg", "images/ladder.svg", "ladder.md"])
        self.assertEqual(first, second)
        for name in ("images/ladder.svg", "images/ladder-decode.svg"):
            self.assertLess(len(first[name]), 50_000)


if __name__ == "__main__":
    unittest.main()

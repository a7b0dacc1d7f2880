# SPDX-License-Identifier: MIT
"""benchmarks/peers.py as far as it goes without PyTorch and a GPU: names, work, grids, statistics, what it refuses."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import peers  # noqa: E402
import spec  # noqa: E402


def shared_lines(kind):
    """The lines of tests/data/benchmark_names.txt that begin with `kind`, as columns; test_benchmark_spec.cpp holds
    strobe_bench to the same file."""
    lines = (ROOT / "tests/data/benchmark_names.txt").read_text().splitlines()
    return [line.split("\t") for line in lines if line.split("\t")[0] == kind]


def script(*arguments):
    return subprocess.run([sys.executable, "-B", str(ROOT / "benchmarks/peers.py"), *arguments], capture_output=True,
                          text=True, check=False)


class Names(unittest.TestCase):
    def test_every_name_of_the_grids_is_its_spec(self):
        cells = spec.all_cells()
        self.assertEqual(len(cells), 4 + 36 + 24 + 14 + 71 * 4)
        self.assertEqual(len({name for _, name, _ in cells}), len(cells))
        for _, name, _ in cells:
            self.assertEqual(spec.name_of(spec.parse(name)), name)

    def test_names_and_their_work(self):
        self.assertTrue(shared_lines("prefill") and shared_lines("decode") and shared_lines("other"))
        for _, name, flop in shared_lines("prefill"):
            self.assertEqual(spec.name_of(spec.parse(name)), name)
            self.assertEqual(spec.flop(spec.parse(name)), float(flop), name)
        for _, name, size, copies, calls in shared_lines("decode"):
            s = spec.parse(name)
            self.assertEqual(spec.name_of(s), name)
            self.assertEqual(spec.kv_bytes(s), int(size), name)
            self.assertEqual(spec.rotation(spec.kv_bytes(s)), (int(copies), int(calls)), name)
        for _, name in shared_lines("other"):
            self.assertEqual(spec.name_of(spec.parse(name)), name)

    def test_wrong_names_are_refused_by_field_and_value(self):
        self.assertTrue(shared_lines("wrong"))
        for _, name, sentence in shared_lines("wrong"):
            with self.assertRaises(ValueError) as caught:
                spec.parse(name)
            self.assertEqual(str(caught.exception), f"{name}: {sentence}")


class Grids(unittest.TestCase):
    def test_quick_is_a_part_of_each_grid(self):
        for grid in ("ceilings", "prefill", "twelve_heads", "variants", "decode", "all"):
            quick, full = spec.cells_of(grid, True), spec.cells_of(grid, False)
            self.assertTrue(0 < len(quick) <= len(full))
            self.assertTrue(set(quick) <= set(full))
        with self.assertRaisesRegex(ValueError, "the grid is 'backward'; it must be ceilings, .* or all"):
            spec.cells_of("backward", False)

    def test_chosen_names(self):
        options = types.SimpleNamespace(shape=[], grid=[], quick=False)
        names = peers.chosen_names(options)
        self.assertIn("ceiling/matmul/fp16/N:8192", names)
        self.assertNotIn("ceiling/exp2", names)
        self.assertEqual(len(names), len(spec.all_cells()) - 2)
        options.shape = ["ceiling/copy/MB:1"]
        self.assertEqual(peers.chosen_names(options), ["ceiling/copy/MB:1"])
        options.grid = ["variants"]
        self.assertEqual(len(peers.chosen_names(options)), 15)
        options.shape = ["ceiling/exp2"]
        with self.assertRaisesRegex(ValueError, "ceiling/exp2: strobe_bench measures this one"):
            peers.chosen_names(options)


class Statistics(unittest.TestCase):
    def test_percentiles_interpolate(self):
        self.assertEqual(spec.percentile([7], 0.5), 7)
        self.assertEqual(spec.percentile([1, 2], 0.5), 1.5)
        self.assertEqual(spec.percentile([1, 2, 10], 0.5), 2)
        self.assertAlmostEqual(spec.percentile([0, 10, 20, 30, 40], 0.1), 4)
        self.assertAlmostEqual(spec.percentile([0, 10, 20, 30, 40], 0.9), 36)
        self.assertEqual(peers.figures([1, 2, 3])["real_time"], 2)

    def test_matmul_ceiling(self):
        entries = [{"name": "ceiling/copy/MB:1024", "GBps": 1.0}]
        self.assertIsNone(spec.matmul_ceiling(json.dumps({"benchmarks": entries})))
        entries.append({"name": "ceiling/matmul/fp16/N:8192", "TFLOPS": 751.5})
        self.assertEqual(spec.matmul_ceiling(json.dumps({"benchmarks": entries})), 751.5)


class Peers(unittest.TestCase):
    """Which peer is meant for which cell: a grid must not lose a peer, nor a peer be asked for what it cannot do."""

    def offers(self, peer, grid):
        return [name for name in spec.cells_of(grid, False) if peer.offers(spec.parse(name))]

    def test_sdpa(self):
        peer = peers.Sdpa(None, "fa2", None)
        self.assertEqual(len(self.offers(peer, "prefill")), 36)
        self.assertEqual(len(self.offers(peer, "twelve_heads")), 24)
        self.assertEqual(len(self.offers(peer, "variants")), 4)  # full and causal
        self.assertEqual(len(self.offers(peer, "decode")), 71)
        self.assertEqual(self.offers(peer, "ceilings"), [])
        # PyTorch aligns a causal mask top-left where strobe aligns it bottom-right.
        self.assertFalse(peer.offers(spec.parse("prefill/fp16/B:1/Hq:4/Hkv:2/Sq:8/Sk:16/D:64/causal:1")))

    def test_packages(self):
        flash, fa3, flashinfer = (kind.__new__(kind) for kind in (peers.FlashAttn, peers.FlashAttn3, peers.FlashInfer))
        self.assertEqual(len(self.offers(flash, "variants")), 10)  # not prefix, not document
        self.assertEqual(len(self.offers(flash, "decode")), 71)
        self.assertEqual(len(self.offers(fa3, "variants")), 8)  # nor alibi
        self.assertEqual(len(self.offers(fa3, "decode")), 3 * 71)
        self.assertEqual(len(self.offers(flashinfer, "decode")), 2 * 71)

    def test_flex(self):
        peer = peers.Flex.__new__(peers.Flex)
        peer.variants = set(spec.cells_of("variants", False))
        self.assertEqual(len(self.offers(peer, "variants")), 14)
        self.assertEqual(self.offers(peer, "prefill") + self.offers(peer, "decode"), [])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_flex_masks_see_the_pairs_that_are_counted(self):
        import torch
        peer = peers.Flex.__new__(peers.Flex)
        peer.torch = torch
        self.addCleanup(setattr, peers, "DEVICE", peers.DEVICE)
        peers.DEVICE = "cpu"
        for q_len in (50, 120):
            for mask in ("", "/mask:window20", "/mask:prefix30", "/mask:document17"):
                s = spec.parse(f"prefill/bf16/B:1/Hq:2/Hkv:2/Sq:{q_len}/Sk:120/D:64/causal:1{mask}")
                visible = peer.modifiers(s)[0](0, 0, torch.arange(q_len)[:, None], torch.arange(120)[None, :])
                half = q_len == 120 and not mask
                self.assertEqual(int(visible.sum()), 120 * 121 / 2 if half else peers.visible_pairs(s), (q_len, mask))


class Program(unittest.TestCase):
    def test_list(self):
        result = script("--list", "--grid", "twelve_heads", "--quick")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), spec.cells_of("twelve_heads", True))

    def test_what_it_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "empty.json"
            file.write_text('{"benchmarks": []}')
            for arguments, sentence in (
                    (["--grid", "backward"], "the grid is 'backward'"),
                    (["--shape", "prefill/fp32"], "prefill/fp32: the element type is 'fp32'; it must be fp16 or bf16"),
                    (["--ceilings", str(file)], "has no ceiling/matmul entry with TFLOPS"),
                    (["--ceilings", str(file) + "x"], "No such file")):
                result = script("--list", *arguments)
                self.assertEqual(result.returncode, 1)
                self.assertIn(sentence, result.stderr)
                self.assertNotIn("Traceback", result.stderr)

    def test_command_keeps_shapes_and_drops_folders(self):
        self.assertEqual(peers.command(["--shape", "decode/fp16/B:1", "--json", "/some/where/a.json", "--quick"]),
                         "peers.py --shape decode/fp16/B:1 --json a.json --quick")
        self.assertEqual(peers.command(["--json=/some/where/a.json"]), "peers.py --json a.json")


if __name__ == "__main__":
    unittest.main()

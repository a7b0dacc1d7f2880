# SPDX-License-Identifier: MIT
"""tests/docs/check_docs.py finds what it is for: made-up pages with one fault each."""

import importlib.util
import pathlib
import tempfile
import unittest

PATH = pathlib.Path(__file__).resolve().parents[1] / "docs" / "check_docs.py"
spec = importlib.util.spec_from_file_location("check_docs", PATH)
check_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_docs)

SOURCE = "int main() {\n  // [docs: call]\n  if (a) {\n    b();\n  }\n  // [docs: end]\n}\n"
SHOWN = "if (a) {\n  b();\n}"


class CheckDocs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        (self.root / "examples").mkdir()
        self.source(SOURCE)

    def source(self, text):
        (self.root / "examples/a.cu").write_text(text)

    def page(self, text):
        (self.root / "docs/a.md").write_text(text)

    def blocks(self, write=False):
        return check_docs.check_blocks(self.root, write)

    def test_a_block_that_shows_its_source(self):
        self.page(f"# A\n\n```cpp examples/a.cu:call\n{SHOWN}\n```\n")
        self.assertEqual(self.blocks(), [])

    def test_a_block_that_differs_and_is_written(self):
        self.page("```cpp examples/a.cu:call\nb();\n```\n")
        self.assertEqual(self.blocks(), ["docs/a.md:1: differs from examples/a.cu:call"])
        self.assertEqual(self.blocks(write=True), [])
        self.assertIn(SHOWN, (self.root / "docs/a.md").read_text())
        self.assertEqual(self.blocks(), [])

    def test_a_block_without_a_source(self):
        self.page(f"```cpp\nb();\n```\n\n```cpp examples/a.cu:call\n{SHOWN}\n```\n")
        self.assertEqual(self.blocks(), ["docs/a.md:1: a cpp block without a source"])

    def test_a_source_that_is_not_there(self):
        self.page(f"```cpp examples/b.cu\n```\n```cpp examples/a.cu:other\n```\n```cpp examples/a.cu:call\n{SHOWN}\n```\n")
        self.assertEqual(sorted(self.blocks()), ["docs/a.md:1: there is no file examples/b.cu",
                                                 "docs/a.md:3: examples/a.cu has no part [docs: other]"])

    def test_a_part_that_no_page_shows(self):
        self.page("# A\n")
        self.assertEqual(self.blocks(), ["examples/a.cu: no page shows [docs: call]"])

    def test_marks_that_do_not_pair_up(self):
        self.page("# A\n")
        for text in ("// [docs: a]\n", "// [docs: end]\n", "// [docs: a]\n// [docs: b]\n// [docs: end]\n"):
            self.source(text)
            self.assertEqual(len(self.blocks()), 1, text)

    def test_links(self):
        self.page("# One: two\n[a](a.md) [b](a.md#one-two) [c](#one-two) [d](../examples/a.cu)\n")
        self.assertEqual(check_docs.check_links(self.root), [])
        self.page("# One\n[a](b.md)\n[b](#two)\n")
        self.assertEqual(check_docs.check_links(self.root), ["docs/a.md:2: b.md is not there",
                                                             "docs/a.md:3: docs/a.md has no #two"])

    def test_outputs(self):
        program = self.root / "says"
        program.write_text("#!/bin/sh\nprintf 'one\\ntwo\\nthree\\nfour\\n'\n")
        program.chmod(0o755)
        for text, faults in (("two\nthree", 0), ("one\n..\nfour", 0), ("two\nfour", 1), ("three\n..\ntwo", 1), ("five", 1)):
            self.page(f"```text says\n{text}\n```\n")
            self.assertEqual(len(check_docs.check_outputs(self.root, self.root)), faults, text)
        self.page("```text says_not\none\n```\n")
        self.assertEqual(check_docs.check_outputs(self.root, self.root), ["docs/a.md:1: there is no program says_not"])

    def test_commands(self):
        self.page("```sh\nfalse\n```\n```sh run\ntest -e docs/a.md\nmkdir -p build/x\n```\n")
        work = self.root / "build/work"
        check_docs.run_commands(self.root, "docs/a.md", work)
        self.assertTrue((work / "build/x").is_dir())
        self.page("```sh run\nfalse\ntrue\n```\n")
        with self.assertRaises(SystemExit):
            check_docs.run_commands(self.root, "docs/a.md", work)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""Keeps the pages in docs/ true to the sources.

  check_docs.py                       code blocks, links and marks; exit status 1 with a line for each fault
  check_docs.py --write               brings the code blocks up to date instead of complaining
  check_docs.py --outputs DIR         runs the programs in DIR whose output the pages show, and compares
  check_docs.py --run PAGE --work DIR runs the page's command blocks, in order, in a folder that looks like
                                      the checkout

A block of C++ or CMake names its source behind the language, a whole file or a part of it:

  ```cpp examples/paged_decode.cu:step

where the part is what lies between the lines `// [docs: step]` and `// [docs: end]` (`#` in CMake). A block
whose first line is ```sh run is a command block: --run gives it to `bash -eu`. A block that begins with
```text PROGRAM shows lines of its output, in order; those between lines `..` may be left out. README.md's one block is
tests/compile/check_readme.sh's affair.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILED = {"cpp", "c++", "cuda", "cu", "c", "cmake"}
FENCE = re.compile(r"^```(\S*) ?(.*)$")
MARK = re.compile(r"^\s*(?://|#) \[docs: ([a-z0-9_-]+)\]$")


def pages(root):
    return sorted((root / "docs").rglob("*.md"))


def blocks(text):
    """(line of the opening fence from 0, line of the closing one, language, rest of the opening line)."""
    found, begin = [], None
    for number, line in enumerate(text.split("\n")):
        match = FENCE.match(line)
        if match and begin is None:
            begin, language, rest = number, match.group(1), match.group(2).strip()
        elif line.strip() == "```" and begin is not None:
            found.append((begin, number, language, rest))
            begin = None
    return found


def parts(text):
    """The marked parts of a source: {name: text}. Raises ValueError where marks do not pair up."""
    found, name, lines = {}, None, []
    for line in text.split("\n"):
        match = MARK.match(line)
        if not match:
            lines.append(line)
        elif match.group(1) == "end":
            if name is None:
                raise ValueError("[docs: end] without a beginning")
            found[name], name = textwrap.dedent("\n".join(lines)), None
        elif name is not None:
            raise ValueError(f"[docs: {match.group(1)}] inside [docs: {name}]")
        elif match.group(1) in found:
            raise ValueError(f"[docs: {match.group(1)}] twice")
        else:
            name, lines = match.group(1), []
    if name is not None:
        raise ValueError(f"[docs: {name}] never ends")
    return found


def source_of(root, name):
    """The text that a block named `name` has to show. Raises ValueError with a reason."""
    path, _, part = name.partition(":")
    if not (root / path).is_file():
        raise ValueError(f"there is no file {path}")
    text = (root / path).read_text()
    if not part:
        return "\n".join(line for line in text.rstrip("\n").split("\n") if not MARK.match(line))
    found = parts(text)
    if part not in found:
        raise ValueError(f"{path} has no part [docs: {part}]")
    return found[part]


def check_blocks(root, write):
    """Faults of the code blocks, and marks that no page shows."""
    faults, shown = [], set()
    for page in pages(root):
        where = page.relative_to(root)
        text = page.read_text()
        lines = text.split("\n")
        for begin, end, language, rest in reversed(blocks(text)):
            if language not in COMPILED:
                continue
            if not rest:
                faults.append(f"{where}:{begin + 1}: a {language} block without a source")
                continue
            try:
                wanted = source_of(root, rest)
            except ValueError as error:
                faults.append(f"{where}:{begin + 1}: {error}")
                continue
            shown.add(rest)
            if "\n".join(lines[begin + 1 : end]) != wanted:
                if write:
                    lines[begin + 1 : end] = wanted.split("\n")
                else:
                    faults.append(f"{where}:{begin + 1}: differs from {rest}")
        if write and "\n".join(lines) != text:
            page.write_text("\n".join(lines))
    for source in sorted((root / "examples").rglob("*")):
        if source.is_dir() or source.suffix not in {".cu", ".cpp", ".hpp", ".cuh", ".txt", ".cmake"}:
            continue
        name = source.relative_to(root).as_posix()
        try:
            faults += [f"{name}: no page shows [docs: {part}]" for part in parts(source.read_text())
                       if f"{name}:{part}" not in shown]
        except ValueError as error:
            faults.append(f"{name}: {error}")
    return faults


def anchors(text):
    """What a link may name behind the # in a page: headings as GitHub spells them, and ids."""
    found, fenced = set(re.findall(r'(?:id|name)="([^"]+)"', text)), False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        match = re.match(r"#+ (.*)$", line)
        if match and not fenced:
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", match.group(1)).strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def check_links(root):
    faults = []
    for page in pages(root):
        where, text = page.relative_to(root), page.read_text()
        prose, fenced = [], False
        for line in text.split("\n"):
            fenced ^= line.startswith("```")
            prose.append("" if fenced else line)
        for number, line in enumerate(prose, 1):
            for link in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                if not target.exists():
                    faults.append(f"{where}:{number}: {link} is not there")
                elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                    faults.append(f"{where}:{number}: {path or where} has no #{anchor}")
    return faults


def run_commands(root, page, work):
    """Runs a page's `sh run` blocks in `work`, where everything but build folders is a link to the checkout."""
    work.mkdir(parents=True, exist_ok=True)
    for entry in root.iterdir():
        link = work / entry.name
        if not entry.name.startswith(("build", ".git")) and not link.exists():
            link.symlink_to(entry)
    text = (root / page).read_text()
    lines = text.split("\n")
    count = 0
    for begin, end, language, rest in blocks(text):
        if (language, rest) != ("sh", "run"):
            continue
        commands = "\n".join(lines[begin + 1 : end])
        print(f"== {page}:{begin + 1}\n{commands}", flush=True)
        code = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=work).returncode
        if code != 0:
            sys.exit(f"{page}:{begin + 1}: ended with {code}")
        count += 1
    if count == 0:
        sys.exit(f"{page} has no command block")


def check_outputs(root, folder):
    faults = []
    for page in pages(root):
        text = page.read_text()
        lines = text.split("\n")
        for begin, end, language, rest in blocks(text):
            if language != "text" or not rest:
                continue
            program = folder / rest
            if not program.is_file():
                faults.append(f"{page.relative_to(root)}:{begin + 1}: there is no program {rest}")
                continue
            output = iter(subprocess.run([program.resolve()], capture_output=True, text=True).stdout.split("\n"))
            anywhere = True  # where the next line may be
            for number, line in enumerate(lines[begin + 1 : end], begin + 2):
                if line == "..":
                    anywhere = True
                    continue
                found = line in output if anywhere else line == next(output, None)
                anywhere = False
                if not found:
                    faults.append(f"{page.relative_to(root)}:{number}: {rest} does not say this (here)")
                    break
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--outputs", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--run", metavar="PAGE")
    parser.add_argument("--work", type=pathlib.Path)
    options = parser.parse_args()
    if options.run:
        if options.work is None:
            parser.error("--run needs --work")
        run_commands(options.root, options.run, options.work)
        return
    if options.outputs:
        faults = check_outputs(options.root, options.outputs)
    else:
        faults = check_blocks(options.root, options.write) + check_links(options.root)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Do links to an anchor of a Markdown page lead somewhere?"""

import re

_LINK = re.compile(r"\]\(([^)\s#]*)#([^)\s]+)\)")
_ID = re.compile(r"""<\w+[^>]*\b(?:id|name)=["']([^"']+)["']""")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")


def _prose(text):
    """(line number, line) outside of code blocks."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.lstrip()[:3]
        if fence:
            fence = None if mark == fence else fence
        elif mark in ("```", "~~~"):
            fence = mark
        else:
            yield number, line


def anchors(text):
    """Ids, and the anchors that GitHub makes of headings."""
    found, seen = set(), {}
    for _, line in _prose(text):
        found.update(_ID.findall(line))
        if match := _HEADING.match(line):
            title = re.sub(r"<[^>]*>|\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).lower()
            name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            seen[name] = seen.get(name, -1) + 1
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
    return found


def broken(page):
    """Sentences about links with an anchor, to this or another Markdown page, that lead nowhere."""
    wrong, known = [], {}
    if not page.is_file():
        return [f"{page} is not there"]
    for number, line in _prose(page.read_text(encoding="utf-8")):
        for target, anchor in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
            file = page.parent / target if target else page
            if re.match(r"\w+:", target) or file.suffix != ".md":
                continue
            if not file.is_file():
                wrong.append(f"{page}:{number}: {target} is not there")
                continue
            if file not in known:
                known[file] = anchors(file.read_text(encoding="utf-8"))
            if anchor not in known[file]:
                wrong.append(f"{page}:{number}: {target or page.name} has no anchor #{anchor}")
    return wrong

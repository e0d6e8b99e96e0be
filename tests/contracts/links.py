"""The relative links of a page, and which of them lead nowhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)>?[^)]*\)"  # [text](target), ![text](target "title")
    r"|^\[[^\]]+\]:\s+(\S+)"  # [name]: target
    r"|<(?:a|img)\s[^>]*?(?:href|src)=\"([^\"]+)\"",
    re.MULTILINE,
)
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:")


def links(text: str) -> Iterator[str]:
    """The targets in this repository that a page links to."""
    for match in LINK.finditer(CODE.sub("", text)):
        target = next(part for part in match.groups() if part)
        if not ELSEWHERE.match(target):
            yield target


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    titles = HEADING.findall(BLOCK.sub("", text))
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in kept}


def dead_links(page: Path) -> list[str]:
    """The relative links of `page` whose file, or heading in it, does not exist."""
    return [target for target in links(page.read_text()) if not _is_there(page, target)]


def _is_there(page: Path, target: str) -> bool:
    name, _, anchor = unquote(target).partition("#")
    path = page.parent / name if name else page
    if not path.exists():
        return False
    return not anchor or path.suffix != ".md" or anchor in anchors(path.read_text())

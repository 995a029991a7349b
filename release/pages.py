"""The pages of the site: those of docs/ as they are, and the files beside it that a reader of docs/ is sent to."""

from __future__ import annotations

import posixpath
import re
import shutil
from typing import TYPE_CHECKING

from release.tree import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "packages/local-kube/README.md": "local-kube.md",
}
"""Files outside of docs/ that are pages, and their names."""
LINK = re.compile(r"\[(?P<text>[^\]\[]*(?:`[^`]*`[^\]\[]*)*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def collect(target: Path, project: Path = PROJECT) -> None:
    """Write all pages, images and notebooks into a folder."""
    shutil.rmtree(target, ignore_errors=True)
    docs = project / "docs"
    sources = [*docs.rglob("*.md"), *(project / name for name in ELSEWHERE)]
    for file in sorted(sources):
        source = file.relative_to(project).as_posix()
        page = target / page_of(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(with_links(file.read_text(encoding="utf-8"), source), encoding="utf-8")
    for folder in ("images", "notebooks"):
        shutil.copytree(docs / folder, target / folder)
    shutil.copytree(project / "release" / "theme", target / "assets")


def page_of(source: str) -> str:
    """Return the page that a file of the project becomes, or nothing."""
    return ELSEWHERE.get(source) or (source.removeprefix("docs/") if source.startswith("docs/") else "")


def with_links(text: str, source: str) -> str:
    """Return a page whose links lead to pages. A link to another file of the project becomes its path."""
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [_replaced(text[end : fence.start()], source), fence[0]]
        end = fence.end()
    return "".join([*parts, _replaced(text[end:], source)])


def _replaced(text: str, source: str) -> str:
    return LINK.sub(lambda link: _link(link["text"], link["target"], source), text)


def _link(text: str, target: str, source: str) -> str:
    path, mark, anchor = target.partition("#")
    if not path or "://" in target or target.startswith("mailto:"):
        return f"[{text}]({target})"
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    page = page_of(file)
    if not page:
        return text if file in text else f"{text} (`{file}`)"
    return f"[{text}]({posixpath.relpath(page, posixpath.dirname(page_of(source)) or '.')}{mark}{anchor})"

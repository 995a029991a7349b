"""Print the unit tests of what has changed since main, for `make check`; all unit tests if nothing has changed.

A module has the tests of its folder, those that import it, and that of the public names; a page those of all pages;
another file those that name it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[1]
UNIT = PROJECT / "tests" / "unit"
MAIN = ("origin/main", "main")
"""Where a branch begins: a person may have committed to a main of their own."""


def main() -> None:
    found = {test for path in changed() for test in tests_of(path)}
    print(*sorted(str(test.relative_to(PROJECT)) for test in found or {UNIT}), sep="\n")


def changed() -> set[Path]:
    """Return what is committed since main, not committed yet, or not added yet."""
    start = next((one for one in MAIN if git("for-each-ref", f"refs/*/{one}")), "HEAD")
    names = git("diff", "--name-only", "--merge-base", start) + git("ls-files", "--others", "--exclude-standard")
    return {PROJECT / name for name in names.splitlines()}


def tests_of(path: Path) -> set[Path]:
    """Return the test files and folders that a changed file concerns."""
    if UNIT in path.parents:
        return {one for one in [path if path.name.startswith("test_") else path.parent] if one.exists()}
    name = path.name
    own: set[Path] = set()
    if path.suffix == ".py" and path.is_relative_to(PROJECT / "plugins"):
        module = path.relative_to(PROJECT / "plugins").with_suffix("")
        name = ".".join(module.parts).removesuffix(".__init__")
        room = UNIT.joinpath(*module.parts[1:-1])
        own = {one for one in [room] if room != UNIT and room.is_dir()} | {UNIT / "release" / "test_surface.py"}
    if path.is_relative_to(PROJECT / "docs"):
        own = {UNIT / "docs"}
    return own | {test for test in UNIT.rglob("test_*.py") if name in test.read_text()}


def git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=PROJECT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()

"""A forked process has the modules of its parent for as long as their files are those that the parent has imported."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[3] / "plugins"
PARENT = """
import os, sys
from ml_metrics.airflow.preloading import share_after_forks
from ml_metrics_telemetry import made

made.kept()
print("ready", flush=True)
sys.stdin.readline()
share_after_forks()
print("shared", flush=True)
for _ in sys.stdin:
    if os.fork():
        os.wait()
        continue
    is_shared = "ml_metrics_telemetry.made" in sys.modules
    try:
        from ml_metrics_telemetry import made
        print(made.WORD, "shared" if is_shared else "imported", made.kept.cache_info().currsize, flush=True)
    except ImportError:
        print("not found", flush=True)
    os._exit(0)
"""
MADE = "from functools import cache\nWORD = {!r}\n\n@cache\ndef kept(): return 1\n"
CLOCK_SECONDS = 0.2
"""How much the start of a process may differ from the clock of files: both count in hundredths."""


class Parent:
    """A process that forks others, and the file of a module that it has imported."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ml_metrics_telemetry" / "made.py"
        self.file.parent.mkdir()
        (self.file.parent / "__init__.py").touch()
        self.file.write_text(MADE.format("first"))
        time.sleep(CLOCK_SECONDS)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            env={**os.environ, "PYTHONPATH": f"{folder}:{PLUGINS}", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> str:
        """Let the parent share its modules, or fork a process, and return what is said."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def replace(self) -> None:
        """Write the module as a deployment does: under another name, which then takes the place."""
        new = self.file.with_suffix(".new")
        new.write_text(MADE.format("another"))
        new.replace(self.file)

    def edit_unseen(self) -> None:
        """Change letters of the module, and give the file the time that it had."""
        status = self.file.stat()
        self.file.write_text(MADE.format("later"))
        os.utime(self.file, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    made = Parent(tmp_path)
    with made.process:
        yield made
        made.process.kill()


def test_modules_are_shared_and_what_the_parent_has_computed_is_not(parent: Parent) -> None:
    assert parent.go_on() == "shared"
    assert [parent.go_on(), parent.go_on()] == ["first shared 0"] * 2


@pytest.mark.parametrize(("change", "word"), [(Parent.replace, "another"), (Parent.edit_unseen, "later")])
def test_a_module_whose_file_has_changed_is_imported_again(parent: Parent, change: object, word: str) -> None:
    assert parent.go_on() == "shared"
    change(parent)  # type: ignore[operator]
    assert parent.go_on() == f"{word} imported 0"


def test_a_file_that_changed_while_it_was_imported_is_not_believed(parent: Parent) -> None:
    parent.replace()
    assert parent.go_on() == "shared"
    assert parent.go_on() == "another imported 0"


def test_a_file_that_is_gone_is_not_believed(parent: Parent) -> None:
    assert parent.go_on() == "shared"
    parent.file.unlink()
    assert parent.go_on() == "not found", "as in a process of its own"

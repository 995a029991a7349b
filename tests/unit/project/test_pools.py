"""The two pools of `make test` run each test file once, and `make check` finds the tests of what has changed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import changed
import pools

PROJECT = Path(__file__).parents[3]
FILES = [
    path
    for folder in ("tests", "campaigns", "packages/local-kube/tests")
    for path in (PROJECT / folder).rglob("test_*.py")
]
CONFIG: Any = SimpleNamespace(option=SimpleNamespace(waiting=2))


def collected_by(worker: str, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    return {file for file in FILES if not pools.pytest_ignore_collect(file, CONFIG)}


def test_each_file_is_in_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, computing = collected_by("gw0", monkeypatch), collected_by("gw2", monkeypatch)
    assert collected_by("gw1", monkeypatch) == waiting
    assert collected_by("gw13", monkeypatch) == computing
    assert computing == {file for file in FILES if "unit" in file.parts}
    assert waiting == set(FILES) - computing
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    assert not any(pools.pytest_ignore_collect(file, CONFIG) for file in FILES), "a run without workers"


@pytest.mark.parametrize(
    ("path", "some"),
    [
        ("plugins/ml_metrics/judge/bounds.py", {"tests/unit/judge"}),
        ("plugins/ml_metrics/core/kinds.py", {"tests/unit/core/test_kinds.py", "tests/unit/release/test_surface.py"}),
        ("docs/formats.md", {"tests/unit/docs", "tests/unit/measure/collect/formats/test_formats_doc.py"}),
        ("tests/unit/judge/test_bounds.py", {"tests/unit/judge/test_bounds.py"}),
        ("tests/unit/judge/cases.py", {"tests/unit/judge"}),
        ("SECURITY.md", {"tests/unit/project/test_security_doc.py"}),
        ("tests/unit/judge/test_removed.py", set()),
    ],
)
def test_what_has_changed_has_tests(path: str, some: set[str]) -> None:
    found = {test.relative_to(PROJECT).as_posix() for test in changed.tests_of(PROJECT / path)}
    assert found >= some
    assert bool(found) == bool(some)

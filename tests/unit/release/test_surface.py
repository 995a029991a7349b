"""What CHANGELOG.md promises is kept: a name that users may rely on neither vanishes nor changes unnoticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import golden
from release.tree import PROJECT
from unit.release.surface import keys, surface

FILE = golden.GOLDEN / "surface.txt"
KINDS = ("setting ", "test file: ", "table ", "command ", "python ", "json of ")


def compare(promised: list[str], now: list[str]) -> None:
    """Fail if a name is gone, or if a new one is not written down yet."""
    if gone := [line for line in promised if line not in set(now)]:
        pytest.fail(
            "\n  ".join(["removed or renamed, which breaks the promise of CHANGELOG.md:", *gone])
            + "\nKeep the old name beside the new one. If it has to go, in a new major version, list it in "
            f"CHANGELOG.md, and take its line out of {FILE.relative_to(PROJECT)}."
        )
    if new := [line for line in now if line not in set(promised)]:
        pytest.fail("\n  ".join(["new, and promised from now on; UPDATE_GOLDEN=1 writes them down:", *new]))


def test_every_public_name_is_kept(tmp_path: Path) -> None:
    now, promised = surface(tmp_path), FILE.read_text().splitlines() if FILE.exists() else []
    if os.environ.get("UPDATE_GOLDEN"):  # only adds: a removal is a decision, not an update
        promised = sorted({*promised, *now})
        FILE.write_text("\n".join(promised) + "\n")
    compare(promised, now)
    assert all(any(line.startswith(kind) for line in now) for kind in KINDS)


def test_a_name_that_is_gone_is_named_with_what_to_do() -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"breaks the promise of CHANGELOG\.md:\n  setting b\nKeep the old name"
    ):
        compare(["setting a", "setting b"], ["setting a", "setting c"])


def test_a_new_name_has_to_be_written_down() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"UPDATE_GOLDEN=1 writes them down:\n  setting b"):
        compare(["setting a"], ["setting a", "setting b"])


def test_keys_of_data_are_no_promise() -> None:
    document = {"test": "a", "metrics": {"loss": 1}, "runs": [{"uuid": "x", "values": {"loss": 1}}]}
    assert list(keys(document)) == ["test", "metrics", "runs", "runs[].uuid", "runs[].values"]

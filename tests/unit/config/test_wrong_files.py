"""Every mistake that we know people make, and what they are told about it, word for word."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from golden import check
from ml_metrics.cli import main

WRONG = Path(__file__).parent / "wrong"


@pytest.mark.parametrize("name", sorted(path.name for path in WRONG.iterdir()))
def test_what_is_wrong_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG)
    told = io.StringIO()
    with redirect_stdout(told):
        assert main(["validate", name]) == 1
    check(f"config/wrong/{name}.txt", told.getvalue())


def test_a_folder_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG.parent)
    told = io.StringIO()
    with redirect_stdout(told):
        assert main(["validate", "wrong"]) == 1
    for path in WRONG.glob("*.*"):
        assert f"wrong/{path.name}" in told.getvalue(), path.name

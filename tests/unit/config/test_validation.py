"""The exact messages for invalid files, with the mistakes that users make."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from golden import check
from ml_metrics.ui.cli import main

WRONG = Path(__file__).parent / "wrong"


@pytest.mark.parametrize("name", sorted(path.name for path in WRONG.iterdir()))
def test_the_problems_of_an_invalid_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG)
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(["validate", name]) == 1
    check(f"config/wrong/{name}.txt", output.getvalue())


def test_the_problems_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(WRONG.parent)
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(["validate", "wrong"]) == 1
    for path in WRONG.glob("*.*"):
        assert f"wrong/{path.name}" in output.getvalue(), path.name

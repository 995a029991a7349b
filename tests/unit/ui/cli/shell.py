"""Commands as a shell runs them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ml_metrics.ui import cli


class Shell:
    """Runs a command, checks its exit code, and returns what it printed: its errors if that is 2, else its answer."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: object, code: int = 0) -> str:
        self._capsys.readouterr()
        assert cli.main(list(map(str, argv))) == code
        printed = self._capsys.readouterr()
        return printed.err if code == cli.USAGE else printed.out

    def json(self, *argv: object, code: int = 0) -> Any:
        """The document that a command prints."""
        return json.loads(self(*argv, "--json", code=code))

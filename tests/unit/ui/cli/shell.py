"""Commands as a shell runs them, and files that they read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.ui import cli

START = datetime(2026, 1, 1, tzinfo=UTC)


class Shell:
    """Runs a command, checks its exit code, and returns what it printed: its errors if that is 2, else its answer."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""
        """What the last command printed on standard error."""

    def __call__(self, *argv: object, code: int = 0) -> str:
        self._capsys.readouterr()
        assert cli.main(list(map(str, argv))) == code
        printed = self._capsys.readouterr()
        self.err = printed.err
        return printed.err if code == cli.USAGE else printed.out

    def json(self, *argv: object, code: int = 0) -> Any:
        """The document that a command prints."""
        return json.loads(self(*argv, "--json", code=code))


def lines_of(metric: str, values: Sequence[float | None], **more: Any) -> list[dict[str, Any]]:
    """A line of a history for each night."""
    nights = ((START + timedelta(days=day)).isoformat() for day in range(len(values)))
    return [
        {"uuid": f"run-{day}", "timestamp": when, "metric_name": metric, "metric_value": value, **more}
        for day, (when, value) in enumerate(zip(nights, values, strict=True))
    ]


def history_file(folder: Path, values: Mapping[str, Sequence[float | None]]) -> Path:
    lines = [line for metric, each in values.items() for line in lines_of(metric, each)]
    path = folder / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path

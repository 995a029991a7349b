"""Control characters in what a command prints: none of them reaches the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ml_metrics import MlMetricsError
from ml_metrics.ui.cli import main, schema

HOSTILE = "a\x1b]0;title\x07b\u202ec\x9b2Jd\re"


def is_shown_safely(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def test_no_command_prints_them(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: argparse.Namespace) -> int:
        print(HOSTILE)
        raise MlMetricsError(f"{HOSTILE}\n{HOSTILE}")

    monkeypatch.setattr(schema, "run", run)
    assert main(["schema"]) == 2
    shown = capsys.readouterr()
    assert is_shown_safely(shown.out)
    assert is_shown_safely(shown.err)
    assert "a\\x1b]0;title\\x07b\\u202ec\\x9b2Jd\\re" in shown.out


def test_names_of_files_tags_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("metric_collection_config: {default_aggregation_strategies: [final]}\n")
    run = tmp_path / f"run{HOSTILE}"
    run.mkdir()
    assert main(["collect", str(config), str(run)]) == 1
    (run / f"m{HOSTILE}\nml-metrics: all is well.jsonl").write_text('{"step": 1, "loss": 1}\n')
    (run / "metrics.jsonl").write_text('{"step": 1, "lo\\u001b[2Jss\\u202e\\n": 1}\nno json \x1b[2J\n')
    (run / "goodput.jsonl").write_text('{"job_name": "j\\u001b[2J", "job_start_time": 1.0}\nx\x1b\n')
    commands = (
        ["collect", str(config), str(run)],
        ["goodput", str(run)],
        ["validate", str(config), "--with-run", str(run)],
        ["validate", str(run)],
        ["load", str(run)],
    )
    for command in commands:
        main(command)
        shown = capsys.readouterr()
        assert is_shown_safely(shown.out), command
        assert is_shown_safely(shown.err), command
        assert "\nml-metrics: all is well" not in shown.out + shown.err, command

"""`main`: exit codes, and errors before a command runs."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from ml_metrics import MlMetricsError
from ml_metrics.ui import cli
from ml_metrics.ui.cli import main, schema
from unit.ui.cli.shell import Shell


def test_no_command_is_wrong_usage_and_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: ml-metrics COMMAND" in capsys.readouterr().out


def test_the_version(ml: Shell) -> None:
    assert ml("--version") == f"ml-metrics {version('airflow-provider-ml-metrics')}\n"


def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["colect"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "ml-metrics: unknown command 'colect'; did you mean 'collect'? `ml-metrics --help` lists the commands\n"
    )


@pytest.mark.parametrize("hostile", ["a\0b", "\udcff"])
def test_arguments_that_are_no_text(hostile: str, ml: Shell) -> None:
    assert ml("history", hostile, code=2) == "ml-metrics: an argument holds a NUL byte or is not UTF-8 text\n"


def test_an_error_of_the_system_is_no_traceback(ml: Shell) -> None:
    assert ml("validate", "x" * 5000, code=2).endswith("File name too long\n")


def test_a_terminal_without_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code = "import sys; from ml_metrics.ui.cli import main; main(['--help']); print('▅')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.endswith(b"\\u2585\n")


def test_starting_costs_no_heavy_import() -> None:
    code = (
        "import sys; from ml_metrics.ui.cli import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name for name in ("airflow", "numpy", "pandas", "pydantic", "sqlalchemy") if f"'{name}'" in done.stderr}


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

"""`main`: exit codes, and errors before a command runs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from ml_metrics.ui import cli


def test_no_command_is_wrong_usage_and_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: ml-metrics COMMAND" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"ml-metrics {version('airflow-provider-ml-metrics')}\n"


def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["colect"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "ml-metrics: unknown command 'colect'; did you mean 'collect'? `ml-metrics --help` lists the commands\n"
    )


def test_a_mistyped_option_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "a-test", "--limt", "3"]) == 2
    assert capsys.readouterr().err.endswith("error: unknown option '--limt'; did you mean '--limit'?\n")
    assert cli.main(["pools", "one-too-many"]) == 2
    assert capsys.readouterr().err.endswith("error: unexpected argument 'one-too-many'\n")


@pytest.mark.parametrize("hostile", ["a\0b", "\udcff"])
def test_arguments_that_are_no_text(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", hostile]) == 2
    assert capsys.readouterr().err == "ml-metrics: an argument holds a NUL byte or is not UTF-8 text\n"


def test_an_error_of_the_system_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["validate", "x" * 5000]) == 2
    assert capsys.readouterr().err.endswith("File name too long\n")


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

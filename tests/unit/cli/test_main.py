from __future__ import annotations

import subprocess
import sys

import pytest

from golden import check
from ml_metrics import cli


def test_the_overview_reads_like_this(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    check("cli/overview.txt", capsys.readouterr().out)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    check(f"cli/{name}.txt", capsys.readouterr().out)


def test_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_a_typing_error_is_answered_with_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["colect"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "did you mean 'collect'?" in told.err


def test_starting_costs_no_heavy_import() -> None:
    code = "import sys; from ml_metrics.cli import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name for name in ("airflow", "numpy", "pandas", "pydantic", "sqlalchemy") if f"'{name}'" in done.stderr}

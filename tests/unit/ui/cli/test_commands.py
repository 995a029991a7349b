"""The help of every command, and what all commands have in common."""

from __future__ import annotations

import pytest

from golden import check
from ml_metrics.ui import cli
from ml_metrics.ui.cli.commands import COMMANDS, parser_of

WITHOUT_JSON = {"demo"}
"""`demo` prints its progress, not an answer."""


def test_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    check("cli/overview.txt", out)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    out = capsys.readouterr().out
    check(f"cli/{name}.txt", out)
    assert [line for line in out.splitlines() if len(line) > 80] == []


def test_help_is_no_wider_on_a_wide_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["history", "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - WITHOUT_JSON))
def test_every_command_prints_json(name: str) -> None:
    assert "--json" in parser_of(name).format_usage()

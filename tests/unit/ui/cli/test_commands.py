"""The help of every command, and what all commands have in common."""

from __future__ import annotations

import pytest

from golden import check
from ml_metrics.ui import cli
from ml_metrics.ui.cli.commands import COMMANDS, GROUPS, overview, parser_of

WITHOUT_JSON = {"completion", "demo"}
"""`demo` prints its progress, and `completion` what a shell reads."""


def test_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    check("cli/overview.txt", out)


def test_the_overview_explains_few_commands_and_names_all() -> None:
    assert len(GROUPS) == 5
    assert sum(len(group.main) for group in GROUPS.values()) <= 20
    assert not set(GROUPS) & set(COMMANDS)
    assert set(overview().replace(",", " ").split()) >= set(COMMANDS)


@pytest.mark.parametrize("verb", GROUPS)
def test_a_command_is_also_found_in_its_group(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, "--help"]) == 0
    printed = capsys.readouterr().out
    for name in GROUPS[verb].commands:
        assert f"  {name} " in printed
        assert cli.main([verb, name, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"usage: ml-metrics {name} ")
    assert cli.main([verb]) == cli.USAGE


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

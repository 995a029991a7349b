"""The help of every command, and what all commands have in common."""

from __future__ import annotations

import pytest

from golden import check
from ml_metrics.ui import cli
from ml_metrics.ui.cli.commands import COMMANDS, GROUPS, overview
from unit.ui.cli.shell import Shell


def test_the_overview(ml: Shell) -> None:
    out = ml("--help")
    assert max(map(len, out.splitlines())) <= 80
    check("cli/overview.txt", out)


def test_the_overview_explains_few_commands_and_names_all() -> None:
    assert len(GROUPS) == 5
    assert sum(len(group.main) for group in GROUPS.values()) <= 20
    assert not set(GROUPS) & set(COMMANDS)
    assert set(overview().replace(",", " ").split()) >= set(COMMANDS)


@pytest.mark.parametrize("verb", GROUPS)
def test_a_command_is_also_found_in_its_group(verb: str, ml: Shell) -> None:
    printed = ml(verb, "--help")
    for name in GROUPS[verb].commands:
        assert f"  {name} " in printed
        assert ml(verb, name, "--help").startswith(f"usage: ml-metrics {name} ")
    assert cli.main([verb]) == cli.USAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns(name: str, ml: Shell) -> None:
    out = ml(name, "--help")
    check(f"cli/{name}.txt", out)
    assert [line for line in out.splitlines() if len(line) > 80] == []

"""`ml-metrics accept`."""

from __future__ import annotations

import json

import pytest

from ml_metrics.ui import cli
from ml_metrics.warehouse import open_warehouse
from unit.warehouse.records import TEST, run_of


def test_accepting_a_level(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["accept", TEST, "total_wall_time", "--reason", "larger data", "--by", "a new user", "--warehouse", address]
    assert cli.main(argv) == 0
    first = capsys.readouterr().out
    assert first == f"Accepted: total_wall_time = 300, run {run_of(11).key[:8]} of 2026-03-13 12:00.\n"
    assert cli.main(argv) == 0
    assert capsys.readouterr().out.startswith("Already accepted by a new user: total_wall_time = 300")
    assert cli.main([*argv, "--run", run_of(7).key[:8], "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["new"], document["accepted"]["value"]) == (True, 280.0)
    with open_warehouse(address) as warehouse:
        assert [each.value for each in warehouse.acceptances.of_test(TEST)] == [280.0, 300.0]


def test_the_run_has_to_be_unambiguous(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["accept", TEST, "total_wall_time", "--reason", "x", "--warehouse", address]
    assert cli.main([*argv, "--run", "zzz"]) == 2
    assert "--run zzz: no run" in capsys.readouterr().err

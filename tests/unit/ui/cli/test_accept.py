"""`ml-metrics accept`."""

from __future__ import annotations

from ml_metrics.warehouse import open_warehouse
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST, run_of


def test_accepting_a_level(address: str, ml: Shell) -> None:
    argv = ["accept", TEST, "total_wall_time", "--reason", "larger data", "--by", "a new user", "--warehouse", address]
    first = ml(*argv)
    assert first == f"Accepted: total_wall_time = 300, run {run_of(11).key[:8]} of 2026-03-13 12:00.\n"
    assert ml(*argv).startswith("Already accepted by a new user: total_wall_time = 300")
    document = ml.json(*argv, "--run", run_of(7).key[:8])
    assert (document["new"], document["accepted"]["value"]) == (True, 280.0)
    with open_warehouse(address) as warehouse:
        assert [each.value for each in warehouse.acceptances.of_test(TEST)] == [280.0, 300.0]


def test_the_level_of_an_open_incident_begins_with_its_first_bad_run(address: str, ml: Shell) -> None:
    with open_warehouse(address) as warehouse:
        for night in (8, 9, 10):
            reasons = ["out_of_bounds:total_wall_time", "missing:loss_final"]
            warehouse.incidents.report(TEST, run_of(night).key, fingerprint="f", reasons=reasons)
    accepted = ml("accept", TEST, "total_wall_time", "--reason", "larger data", "--warehouse", address)
    assert f"run {run_of(8).key[:8]} of" in accepted


def test_the_run_has_to_be_unambiguous(address: str, ml: Shell) -> None:
    argv = ["accept", TEST, "total_wall_time", "--reason", "x", "--warehouse", address]
    assert "--run zzz: no run" in ml(*argv, "--run", "zzz", code=2)

"""Acknowledging an incident about the file, the DAG or the schedule of a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.cli import main
from ml_metrics.warehouse import KnownTest, open_warehouse


@pytest.fixture
def address(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/warehouse.db"
    with open_warehouse(address) as warehouse:
        known = KnownTest("nightly", problems={"file:vanished": "It is gone."}, reported=("file:vanished",))
        warehouse.known_tests.replace({"nightly": known}, 0)
        warehouse.incidents.report("definition:nightly", "a key", fingerprint="f", reasons=["file:vanished"])
        warehouse.incidents.report("nightly", "a run", fingerprint="f", reasons=["job_status:"])
    return address


def test_the_incident_of_a_definition_is_acknowledged_with_that_of_the_runs(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ack", "nightly", "--by", "a new user", "--warehouse", address]) == 0
    assert "Acknowledged by a new user: nightly: the job failed, no file defines it" in capsys.readouterr().out
    with open_warehouse(address) as warehouse:
        assert [one.acknowledged_by for one in warehouse.incidents.all_open().values()] == ["a new user"] * 2
    assert main(["ack", "nightly", "--by", "another", "--warehouse", address]) == 0
    assert "Already acknowledged by a new user" in capsys.readouterr().out


def test_alerts_lists_it_under_the_name_of_the_test(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alerts", "nightly", "--json", "--warehouse", address]) == 0
    opened = json.loads(capsys.readouterr().out)["open"]
    assert [one["test"] for one in opened] == ["nightly", "nightly"]
    assert main(["alerts", "--warehouse", address]) == 0
    assert "nightly: no file defines it" in capsys.readouterr().out


def test_the_list_of_tests_names_those_that_do_not_run(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tests", "--warehouse", address]) == 0
    assert "nightly does not run as defined: no file defines it" in capsys.readouterr().out
    assert main(["tests", "--json", "--warehouse", address]) == 0
    assert json.loads(capsys.readouterr().out)["not_running"] == {"nightly": ["file:vanished"]}

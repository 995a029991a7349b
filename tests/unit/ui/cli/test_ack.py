"""Acknowledging an incident about the file, the DAG or the schedule of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.ui.cli import main
from ml_metrics.warehouse import KnownTest, open_warehouse
from unit.ui.cli.shell import Shell


@pytest.fixture
def address(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/warehouse.db"
    with open_warehouse(address) as warehouse:
        known = KnownTest("nightly", problems={"file:vanished": "It is gone."}, reported=("file:vanished",))
        warehouse.known_tests.replace({"nightly": known}, 0)
        warehouse.incidents.report("definition:nightly", "a key", fingerprint="f", reasons=["file:vanished"])
        warehouse.incidents.report("nightly", "a run", fingerprint="f", reasons=["job_status:"])
    return address


def test_the_incident_of_a_definition_is_acknowledged_with_that_of_the_runs(address: str, ml: Shell) -> None:
    assert "Acknowledged by a new user: nightly: the job failed, no file defines it" in ml(
        "ack", "nightly", "--by", "a new user", "--warehouse", address
    )
    with open_warehouse(address) as warehouse:
        assert [one.acknowledged_by for one in warehouse.incidents.all_open().values()] == ["a new user"] * 2
    assert "Already acknowledged by a new user" in ml("ack", "nightly", "--by", "another", "--warehouse", address)


def test_it_is_assigned_and_said_to_be_no_regression(
    address: str, ml: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    def ack(*more: str) -> tuple[int, str]:
        code = main(["ack", "nightly", *more, "--by", "a new user", "--warehouse", address])
        return code, capsys.readouterr().out

    reasons = "the job failed, no file defines it"
    assert ack("--assign", "vera") == (0, f"Assigned to vera by a new user: nightly: {reasons}\n")
    assert "nightly: the job failed; assigned to vera" in ml("alerts", "--warehouse", address)
    assert ack("--no-regression")[0] == 2  # without a reason
    closed = ack("--no-regression", "--note", "a slow disk")[1]
    assert closed.startswith("Closed as no regression by a new user: nightly")
    with open_warehouse(address) as warehouse:
        assert list(warehouse.incidents.all_open()) == ["definition:nightly"]
    # a user may think again, also after it was closed
    assert ack("--regression") == (0, "A regression, says a new user: nightly: no file defines it\n")
    assert ack("--assign", "") == (0, "Assigned to nobody by a new user: nightly: no file defines it\n")


def test_alerts_lists_it_under_the_name_of_the_test(address: str, ml: Shell) -> None:
    opened = ml.json("alerts", "nightly", "--warehouse", address)["open"]
    assert [one["test"] for one in opened] == ["nightly", "nightly"]
    assert "nightly: no file defines it" in ml("alerts", "--warehouse", address)


def test_the_list_of_tests_names_those_that_do_not_run(address: str, ml: Shell) -> None:
    assert "1 test does not run as defined, no file defines it: nightly" in ml("tests", "--warehouse", address)
    assert ml.json("tests", "--warehouse", address)["not_running"] == {"nightly": ["file:vanished"]}

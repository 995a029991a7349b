"""`ml-metrics alerts` and `ml-metrics ack`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from golden import check
from ml_metrics.ui import cli
from ml_metrics.warehouse import open_warehouse
from unit.ui.cli.stored_messages import stored, two_tests
from unit.warehouse.records import TEST

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ALWAYS = ["--days", "36500"]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return two_tests(tmp_path)


@pytest.fixture
def alerted(address: str) -> None:
    with open_warehouse(address) as opened:
        opened.incidents.report(
            TEST, "run 1", fingerprint="f", reasons=["out_of_bounds:loss_final", "job_status:"], at=NOON
        )
        opened.messages.add(stored(at=NOON))


def run(capsys: pytest.CaptureFixture[str], address: str, *argv: str) -> tuple[int, str, str]:
    code = cli.main([*argv, "--warehouse", address])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_nothing_is_open(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, address, "alerts")[:2] == (0, "No alert is open.\n")


@pytest.mark.usefixtures("alerted")
def test_output(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_warehouse(address) as today:
        today.messages.add(stored("run 2-001-broken-cd", at=datetime.now(UTC)))
    code, out, _ = run(capsys, address, "alerts", *ALWAYS)
    assert code == 0
    lines = out.splitlines()
    assert max(map(len, (line for line in lines if "took too long" not in line))) <= 80
    today_is = f"{datetime.now(UTC):%Y-%m-%d}"
    check("cli/alerts-of-a-warehouse.txt", "\n".join(line for line in lines if today_is not in line) + "\n")


@pytest.mark.usefixtures("alerted")
def test_json_is_one_document(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, address, "alerts", TEST, "--json", *ALWAYS)
    document = json.loads(out)
    assert document["open"][0]["reasons"] == ["out_of_bounds:loss_final", "job_status:"]
    (message,) = document["messages"]
    assert (message["state"], message["channels"]["smtp"]["state"]) == ("pending", "failed")
    assert "content" not in message
    _, out, _ = run(capsys, address, "alerts", "another", "--json", *ALWAYS)
    assert json.loads(out) == {"open": [], "waiting": [], "messages": []}


@pytest.mark.usefixtures("alerted")
def test_acknowledging(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, address, "ack", TEST, "--by", "a new user", "--note", "a bad disk")
    assert (code, out) == (0, f"Acknowledged by a new user: {TEST}: loss_final out of bounds, the job failed\n")
    code, out, _ = run(capsys, address, "ack", TEST, "--by", "another user")
    assert (code, out) == (0, f"Already acknowledged by a new user: {TEST}: loss_final out of bounds, the job failed\n")
    _, out, _ = run(capsys, address, "ack", TEST, "--json")
    document = json.loads(out)
    assert (document["new"], document["alert"]["note"]) == (False, "a bad disk")


def test_there_is_nothing_to_acknowledge(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, address, "ack", TEST)
    assert (code, out) == (1, "")
    assert f"{TEST} has no open alert" in err
    code, out, err = run(capsys, address, "ack", TEST, "--json")
    assert (code, json.loads(out), err) == (1, {"alert": None, "new": False}, "")


def test_the_causes_of_open_alerts_and_their_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"sqlite:///{tmp_path}/causes.db"
    with open_warehouse(address) as warehouse:
        for test in ("one", "two"):
            warehouse.incidents.report(test, test, fingerprint="f", reasons=["x"], at=NOON, cause="a node was lost: n1")
    assert run(capsys, address, "alerts")[1].endswith("Causes:\n  a node was lost: n1: one, two\n")

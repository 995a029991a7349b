"""`ml-metrics messages`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from golden import check
from ml_metrics.ui import cli
from ml_metrics.warehouse import SenderPass, open_warehouse
from unit.ui.cli.stored_messages import stored, two_tests
from unit.warehouse.records import TEST

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ALWAYS = ["--days", "36500"]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return two_tests(tmp_path)


@pytest.fixture
def filled(address: str) -> str:
    with open_warehouse(address) as opened:
        states = {"pending": "", "held": "a warning", "sent": "", "summarised": "it was in a digest", "dead": ""}
        for number, (state, held_because) in enumerate(states.items()):
            at = NOON + timedelta(minutes=number)
            opened.messages.add(stored(f"m{number}", at=at, state=state, held_because=held_because))
        digest = stored("digest-1", at=NOON, test="", occasion="digest", subject="a digest", state="sent", channels={})
        opened.messages.add(digest)
        opened.senders.record(SenderPass("ml_messages", NOON, 2, 1, "smtp is down"))
    return address


def run(capsys: pytest.CaptureFixture[str], address: str, *argv: str) -> tuple[int, str]:
    code = cli.main(["messages", *argv, "--warehouse", address])
    return code, capsys.readouterr().out


def test_output(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, filled, *ALWAYS)
    assert code == 0
    today = re.sub(rf"{datetime.now(UTC):%Y-%m-%d} \d\d:\d\d", "in a minute", out)
    check("cli/messages-of-a-warehouse.txt", today)


def test_pending_are_those_that_no_channel_failed_for_ever(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open_warehouse(filled) as opened:
        for number, state in enumerate(("pending", "held", "sent", "dead")):
            opened.messages.add(stored(f"new {number}", at=datetime.now(UTC), state=state))
    _, out = run(capsys, filled, "--pending", "--json")
    assert {one["message"] for one in json.loads(out)["messages"]} == {"new 0", "new 1"}
    assert run(capsys, filled, "another", "--pending")[1].splitlines()[-1] == "No message is pending or held."


def test_json_is_one_document(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, filled, TEST, "--json", *ALWAYS)[1])
    assert document["sender"]["detail"] == "smtp is down"
    assert document["no_sender_since"] == str(NOON)
    assert (document["pending"], len(document["messages"])) == (1, 5)
    assert document["messages"][-1]["channels"]["smtp"]["attempts"] == 3
    assert "content" not in document["messages"][0]


def test_an_empty_warehouse(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, address) == (0, "No sender has run yet.\nThere are no messages.\n")
    code = cli.main(["messages", "tset", "--warehouse", address])
    assert code == 2
    assert "no run of a test 'tset' was recorded" in capsys.readouterr().err

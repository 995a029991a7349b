"""`ml-metrics alerts`, `messages` and `ack`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from golden import check
from ml_metrics.warehouse import ChannelResult, KnownTest, SenderPass, StoredMessage, open_warehouse
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST, record

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ALWAYS = ["--days", "36500"]
CHANNELS = {
    "outbox": ChannelResult("delivered", 1, "/outbox/it-broke.eml"),
    "smtp": ChannelResult("failed", 3, "mail.example took too long"),
}


def stored(key: str = "run 1-001-broken-ab", *, at: datetime, **fields: Any) -> StoredMessage:
    """A message that one channel has accepted and another has not."""
    message: dict[str, Any] = {"test": TEST, "occasion": "broken", "subject": "[ML Metrics] it broke", "attempts": 3}
    message |= {"run_key": "run 1", "owner": "vision-team", "content_hash": "ab", "timestamp": at, "channels": CHANNELS}
    message |= {"recipients": ("a@example.com",), "reasons": ("the loss is high",)}
    return StoredMessage(key, **{**message, **fields})


@pytest.fixture
def address(tmp_path: Path) -> str:
    """A warehouse with one run of each of two tests."""
    place = f"sqlite:///{tmp_path}/warehouse.db"
    with open_warehouse(place) as warehouse:
        warehouse.load_all([record(0, {"loss_final": 1.0}, test=test) for test in (TEST, "another")])
    return place


@pytest.fixture
def alerted(address: str) -> list[str]:
    with open_warehouse(address) as opened:
        reasons = ["out_of_bounds:loss_final", "job_status:"]
        opened.incidents.report(TEST, "run 1", fingerprint="f", reasons=reasons, at=NOON)
        opened.messages.add(stored(at=NOON))
    return ["--warehouse", address]


def test_nothing_is_open(address: str, ml: Shell) -> None:
    assert ml("alerts", "--warehouse", address) == "No alert is open.\n"


def test_what_is_open_and_was_sent(alerted: list[str], ml: Shell) -> None:
    with open_warehouse(alerted[1]) as today:
        today.messages.add(stored("run 2-001-broken-cd", at=datetime.now(UTC)))
    lines = ml("alerts", *alerted, *ALWAYS).splitlines()
    assert max(map(len, (line for line in lines if "took too long" not in line))) <= 80
    today_is = f"{datetime.now(UTC):%Y-%m-%d}"
    check("cli/alerts-of-a-warehouse.txt", "\n".join(line for line in lines if today_is not in line) + "\n")


def test_json_is_one_document(alerted: list[str], ml: Shell) -> None:
    document = ml.json("alerts", TEST, *ALWAYS, *alerted)
    assert document["open"][0]["reasons"] == ["out_of_bounds:loss_final", "job_status:"]
    (message,) = document["messages"]
    assert (message["state"], message["channels"]["smtp"]["state"]) == ("pending", "failed")
    assert "content" not in message
    assert ml.json("alerts", "another", *ALWAYS, *alerted) == {"open": [], "waiting": [], "messages": []}


def test_the_causes_of_open_alerts_and_their_tests(tmp_path: Path, ml: Shell) -> None:
    address = f"sqlite:///{tmp_path}/causes.db"
    with open_warehouse(address) as warehouse:
        for test in ("one", "two"):
            warehouse.incidents.report(test, test, fingerprint="f", reasons=["x"], at=NOON, cause="a node was lost: n1")
    assert ml("alerts", "--warehouse", address).endswith("Causes:\n  a node was lost: n1: one, two\n")


def test_acknowledging(alerted: list[str], ml: Shell) -> None:
    reasons = f"{TEST}: loss_final out of bounds, the job failed\n"
    said = ml("ack", TEST, "--by", "a new user", "--note", "a bad disk", *alerted)
    assert said == f"Acknowledged by a new user: {reasons}"
    assert ml("ack", TEST, "--by", "another user", *alerted) == f"Already acknowledged by a new user: {reasons}"
    document = ml.json("ack", TEST, *alerted)
    assert (document["new"], document["alert"]["note"]) == (False, "a bad disk")


def test_there_is_nothing_to_acknowledge(address: str, ml: Shell) -> None:
    assert ml("ack", TEST, "--warehouse", address, code=1) == ""
    assert f"{TEST} has no open alert" in ml.err
    assert ml.json("ack", TEST, "--warehouse", address, code=1) == {"alert": None, "new": False}
    assert ml.err == ""


@pytest.fixture
def vanished(tmp_path: Path) -> list[str]:
    """Two incidents of a test: one about its runs, one about its file."""
    address = f"sqlite:///{tmp_path}/vanished.db"
    with open_warehouse(address) as warehouse:
        known = KnownTest("nightly", problems={"file:vanished": "It is gone."}, reported=("file:vanished",))
        warehouse.known_tests.replace({"nightly": known}, 0)
        warehouse.incidents.report("definition:nightly", "a key", fingerprint="f", reasons=["file:vanished"])
        warehouse.incidents.report("nightly", "a run", fingerprint="f", reasons=["job_status:"])
    return ["--warehouse", address]


def test_the_incident_of_a_definition_is_acknowledged_with_that_of_the_runs(vanished: list[str], ml: Shell) -> None:
    said = ml("ack", "nightly", "--by", "a new user", *vanished)
    assert "Acknowledged by a new user: nightly: the job failed, no file defines it" in said
    with open_warehouse(vanished[1]) as warehouse:
        assert [one.acknowledged_by for one in warehouse.incidents.all_open().values()] == ["a new user"] * 2
    assert "Already acknowledged by a new user" in ml("ack", "nightly", "--by", "another", *vanished)


def test_it_is_assigned_and_said_to_be_no_regression(vanished: list[str], ml: Shell) -> None:
    def ack(*more: str, code: int = 0) -> str:
        return ml("ack", "nightly", *more, "--by", "a new user", *vanished, code=code)

    reasons = "the job failed, no file defines it"
    assert ack("--assign", "vera") == f"Assigned to vera by a new user: nightly: {reasons}\n"
    assert "nightly: the job failed; assigned to vera" in ml("alerts", *vanished)
    assert "state the reason with --note" in ack("--no-regression", code=2)
    closed = ack("--no-regression", "--note", "a slow disk")
    assert closed.startswith("Closed as no regression by a new user: nightly")
    with open_warehouse(vanished[1]) as warehouse:
        assert list(warehouse.incidents.all_open()) == ["definition:nightly"]
    # a user may think again, also after it was closed
    assert ack("--regression") == "A regression, says a new user: nightly: no file defines it\n"
    assert ack("--assign", "") == "Assigned to nobody by a new user: nightly: no file defines it\n"


def test_alerts_and_tests_list_what_a_definition_lacks_under_the_name_of_the_test(
    vanished: list[str], ml: Shell
) -> None:
    assert [one["test"] for one in ml.json("alerts", "nightly", *vanished)["open"]] == ["nightly", "nightly"]
    assert "nightly: no file defines it" in ml("alerts", *vanished)
    assert "1 test does not run as defined, no file defines it: nightly" in ml("tests", *vanished)
    assert ml.json("tests", *vanished)["not_running"] == {"nightly": ["file:vanished"]}


@pytest.fixture
def sent(address: str) -> list[str]:
    """A message in each state, a digest, and a pass of the sender."""
    with open_warehouse(address) as opened:
        states = {"pending": "", "held": "a warning", "sent": "", "summarised": "it was in a digest", "dead": ""}
        for number, (state, held_because) in enumerate(states.items()):
            at = NOON + timedelta(minutes=number)
            opened.messages.add(stored(f"m{number}", at=at, state=state, held_because=held_because))
        digest = stored("digest-1", at=NOON, test="", occasion="digest", subject="a digest", state="sent", channels={})
        opened.messages.add(digest)
        opened.senders.record(SenderPass("ml_messages", NOON, 2, 1, "smtp is down"))
    return ["--warehouse", address]


def test_messages_and_their_sender(sent: list[str], ml: Shell) -> None:
    today = re.sub(rf"{datetime.now(UTC):%Y-%m-%d} \d\d:\d\d", "in a minute", ml("messages", *ALWAYS, *sent))
    check("cli/messages-of-a-warehouse.txt", today)
    document = ml.json("messages", TEST, *ALWAYS, *sent)
    assert document["sender"]["detail"] == "smtp is down"
    assert document["no_sender_since"] == str(NOON)
    assert (document["pending"], len(document["messages"])) == (1, 5)
    assert document["messages"][-1]["channels"]["smtp"]["attempts"] == 3
    assert "content" not in document["messages"][0]


def test_pending_are_those_that_no_channel_failed_for_ever(sent: list[str], ml: Shell) -> None:
    with open_warehouse(sent[1]) as opened:
        for number, state in enumerate(("pending", "held", "sent", "dead")):
            opened.messages.add(stored(f"new {number}", at=datetime.now(UTC), state=state))
    assert {one["message"] for one in ml.json("messages", "--pending", *sent)["messages"]} == {"new 0", "new 1"}
    assert ml("messages", "another", "--pending", *sent).splitlines()[-1] == "No message is pending or held."


def test_a_warehouse_without_messages(address: str, ml: Shell) -> None:
    assert ml("messages", "--warehouse", address) == "No sender has run yet.\nThere are no messages.\n"
    assert "no run of a test 'tset' was recorded" in ml("messages", "tset", "--warehouse", address, code=2)


def test_a_night_before_all_nights(address: str, ml: Shell) -> None:
    for day in ("0001-01-01", "1969-12-31", "2026-02-30"):
        assert f"{day!r} is not a date since 1970" in ml("night", day, "--warehouse", address, code=2)
    for day in ("1970-01-01", "9999-12-31"):
        assert "0 tests ran" in ml("night", day, "--warehouse", address)

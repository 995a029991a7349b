"""Which channels get a message: a table of every kind, sent at once and held for each reason."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.policy import (
    ACKNOWLEDGED,
    PART_OF_MASS_FAILURE,
    change_to_report,
    channels_for,
    due_notification,
)

due = partial(due_notification, reported=None, acknowledged=False, passed=False)
LIMITED = "the owner got {} messages within an hour"


@pytest.mark.parametrize(
    ("problems", "warnings", "state", "expected"),
    [
        ([], ["a"], {"passed": True}, (MessageKind.WARNING, "a warning")),
        (["b"], [], {"reported": {"a"}, "acknowledged": True}, (MessageKind.WORSE, ACKNOWLEDGED)),
        ([], [], {"reported": {"a"}, "acknowledged": True, "passed": True}, (MessageKind.RECOVERED, "")),
        *((["a"], [], {"mails": (sent, 1)}, (MessageKind.BROKEN, "")) for sent in (0, 9)),
        *((["a"], [], {"mails": (sent, 1)}, (MessageKind.BROKEN, LIMITED.format(sent))) for sent in (10, 11)),
        (["a"], [], {"mails": (1, 0), "mails_per_hour": 1}, (MessageKind.BROKEN, "")),
        (["a"], [], {"mails": (1, 1), "mails_per_hour": 1}, (MessageKind.BROKEN, LIMITED.format(1))),
    ],
)
def test_what_is_due_and_what_waits(
    problems: list[str], warnings: list[str], state: dict[str, Any], expected: tuple[MessageKind, str]
) -> None:
    """Ten messages an hour are sent unless the owner has another limit; an acknowledged recovery is sent."""
    assert due(problems, warnings, **state) == expected


def test_other_tests_that_name_the_same_owner_do_not_hold_back_a_tests_first_message() -> None:
    assert due(["a"], [], mails=(10_000, 0)) == (MessageKind.BROKEN, "")
    assert due(["a"], [], mails_per_hour=0) == (MessageKind.BROKEN, LIMITED.format(0))


PROBLEMS = st.frozensets(st.sampled_from("abc"))


@given(st.lists(st.tuples(PROBLEMS, st.booleans()), max_size=40))
def test_every_problem_is_reported_once_per_incident_and_every_incident_ends_once(
    runs: list[tuple[frozenset[str], bool]],
) -> None:
    reported: set[str] | None = None
    for problems, succeeded in runs:
        passed = succeeded and not problems
        kind = change_to_report(problems, reported, passed=passed)
        if reported is None:
            assert kind is (MessageKind.BROKEN if problems else None)
        else:
            expected = MessageKind.WORSE if problems - reported else MessageKind.RECOVERED if passed else None
            assert kind is expected
        if kind is MessageKind.RECOVERED:
            reported = None
        elif kind is not None:
            reported = (reported or set()) | problems
        assert reported is None or problems <= reported


@pytest.mark.parametrize(
    ("problems", "kind"),
    [
        (["job_status:ExitCode:3"], None),
        (["job_status:"], None),
        (["job_status:ExitCode:3", "missing:loss"], "worse"),
        (["missing:loss"], "worse"),
    ],
)
def test_an_incident_of_an_older_version_has_one_name_for_every_problem_of_the_job(
    problems: list[str], kind: str | None
) -> None:
    assert change_to_report(problems, ["job_status:"], passed=False) == kind
    assert change_to_report(["job_status:b"], ["job_status:a"], passed=False) == "worse", "only that one name"


MAIL = {"outbox", "smtp", "sendgrid"}
PER_TEST = {"github", "error_reporting", "pagerduty", "opsgenie"}
CHATS = {"webhook", "teams", "google_chat"}
ALL = MAIL | PER_TEST | CHATS


@dataclass(frozen=True)
class Named:
    name: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        raise NotImplementedError(f"{message.key} {timeout}")


def chosen(kind: MessageKind, held_because: str = "", connection: str = "") -> set[str]:
    channels = [Named(name + connection) for name in sorted({*ALL, "mlflow"})]
    found = channels_for(channels, kind, held_because)
    assert found == [one for one in channels if one in found], "in their order"
    return {one.name.removesuffix(connection) for one in found}


EXPECTED = {
    **dict.fromkeys(MessageKind, ALL),
    **dict.fromkeys((MessageKind.TRIAL, MessageKind.COST, MessageKind.ANSWER), MAIL),
    **dict.fromkeys((MessageKind.DIGEST, MessageKind.HEARTBEAT), MAIL | CHATS),
    MessageKind.RESULT: {"mlflow"},
}


@pytest.mark.parametrize("connection", ["", ":of_a_team"])
@pytest.mark.parametrize("kind", MessageKind)
def test_a_message_that_is_sent_at_once_goes_to_the_channels_of_its_kind(kind: MessageKind, connection: str) -> None:
    assert chosen(kind, connection=connection) == EXPECTED[kind]


@pytest.mark.parametrize("because", ["a warning", "a condition that does not decide", ACKNOWLEDGED])
@pytest.mark.parametrize("kind", MessageKind)
def test_what_can_wait_goes_to_no_channel_but_a_tracking_server(kind: MessageKind, because: str) -> None:
    assert chosen(kind, because) == ({"mlflow"} if kind is MessageKind.RESULT else set())


@pytest.mark.parametrize(
    "because", ["part of an incident: no node fits", PART_OF_MASS_FAILURE, "the owner got 10 messages within an hour"]
)
@pytest.mark.parametrize("kind", [MessageKind.BROKEN, MessageKind.WORSE, MessageKind.RECOVERED, MessageKind.OVERDUE])
def test_what_waits_for_a_digest_is_on_the_channels_that_have_an_entry_for_each_test(
    kind: MessageKind, because: str
) -> None:
    assert chosen(kind, because) == PER_TEST

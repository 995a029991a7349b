"""The attempt of the process that wrote a message is in its row at once, like any attempt of a sender."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.alerts import Posted, hurry
from ml_metrics.alerts.outbox.post import record
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.warehouse import messages, open_warehouse
from unit.alerts.sending import Fake, Sending, gone

BOTH, SECOND = ("a@example.com", "b@example.com"), ("b@example.com",)
ANSWERS = {
    "takes it": None,
    "is down": UndeliveredError("is down", transient=True),
    "asks to wait": UndeliveredError("asks to wait", transient=True, retry_after=1800),
    "has a wrong key": UndeliveredError("has a wrong key"),
    "has it and says nothing": UndeliveredError("has it and says nothing", transient=True, unconfirmed=True),
    "takes it for one": UndeliveredError("takes it for one", remaining=SECOND),
}


@contextmanager
def deployment(*answers: str) -> Iterator[Sending]:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "HOLD_OFF", timedelta(0))
        channels = tuple(Fake(f"channel-{number}", error=ANSWERS[one]) for number, one in enumerate(answers))
        with open_warehouse(f"sqlite:///{root}/warehouse.db") as opened:
            yield Sending(Path(root), opened, others=channels, options={"channels": channels})


def try_at_once(here: Sending, fails: str) -> Posted:
    """Write a message and try it at once, while the warehouse fails at one moment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in {"before the row": ["add", "finish"], "after the row": ["finish"]}.get(fails, []):
            patch.setattr(messages.Messages, name, gone)
        posted = here.post(recorded=fails != "is closed")
        hurry(posted, here.mail, None if fails == "is closed" else here.warehouse)
        return posted


def counted(here: Sending) -> dict[str, tuple[str, int, str]]:
    return {name: (one.state, one.attempts, one.detail) for name, one in here.row.channels.items()}


def after(answers: list[str], attempts: int) -> dict[str, tuple[str, int, str]]:
    return {
        f"channel-{number}": (("delivered", 1, "accepted") if ANSWERS[one] is None else ("failed", attempts, one))
        for number, one in enumerate(answers)
    }


def tried(here: Sending) -> list[list[tuple[str, ...]]]:
    return [[message.recipients for message in one.tries] for one in here.others]


@given(
    answers=st.lists(st.sampled_from(list(ANSWERS)), min_size=1, max_size=3),
    fails=st.sampled_from(["never", "is closed", "before the row", "after the row"]),
)
@settings(max_examples=25, deadline=None)
def test_the_row_has_the_first_attempt_of_each_channel_whatever_it_answered(answers: list[str], fails: str) -> None:
    fail = any(map(ANSWERS.get, answers))
    with deployment(*answers) as here:
        try_at_once(here, fails)
        for marker in here.mail.markers.all() if fails != "never" else ():
            for _ in range(2):  # a sender takes over what the writer could not record, twice if it is killed
                record(here.mail.message_folder, marker.document, here.mail.markers, here.warehouse)
        assert counted(here) == after(answers, 1)
        assert (here.row.attempts, here.row.state) == (1, "pending" if fail else "sent")
        here.after_every_pause()
        here.send()
        assert counted(here) == after(answers, 2)
        assert here.row.attempts == 1 + fail
        again = {"takes it": [], "takes it for one": [SECOND]}
        second = [tries[1:] for tries in tried(here)]
        assert second == [again.get(one, [BOTH]) for one in answers], "what a recipient has is not sent again"


def test_a_pause_that_a_channel_asked_the_writer_for_is_kept() -> None:
    with deployment("asks to wait") as here:
        try_at_once(here, "never")
        assert here.row.next_attempt > here.warehouse.messages.moment() + timedelta(minutes=25)


def test_an_attempt_of_which_the_record_is_damaged_is_not_counted_and_the_message_is_sent() -> None:
    with deployment("takes it") as here:
        posted = try_at_once(here, "is closed")
        for damage in ("{", '{"state": 1}'):
            Path(posted.folder.document_path(f"{posted.name}.attempt.sent")).write_text(damage)
            record(here.mail.message_folder, posted.name, here.mail.markers, here.warehouse)
        assert here.row.attempts == 0
        here.send()
        assert (here.row.state, tried(here)) == ("sent", [[BOTH]])


def test_an_attempt_that_is_recorded_after_a_sender_has_the_message_changes_nothing() -> None:
    with deployment("is down") as here:
        posted = here.post()
        here.send()
        before = here.row
        hurry(posted, here.mail, here.warehouse)
        assert here.row == before

"""A mail within a limit: whole if it surely fits, then without its pictures, then with the beginning of its text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.alerts.channels.mail import LONG_LINES, NOTE, as_mail, fitted
from ml_metrics.alerts.message import Message, MessageKind, Picture

SMALL = Message("key", MessageKind.BROKEN, "it broke", "text\n", "<p>", ("a@example.com",))


def sent_bytes(message: Message) -> int:
    return len(as_mail(message).as_bytes(policy=LONG_LINES.clone(linesep="\r\n")))


def least_limit(message: Message) -> int:
    """Return the smallest limit at which the message stays whole."""
    low, high = 0, 1 << 30
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fitted(message, middle) is message else (middle + 1, high)
    return low


@pytest.mark.parametrize(
    ("what", "most"),
    [
        ({"text": "a line of a text\n" * 20_000}, 1.2),
        ({"html": "abcdefghij" * 50_000}, 1.2),
        ({"text": "=" * 100_000}, 1.2),
        ({"text": "é" * 100_000}, 1.2),
        ({"pictures": (Picture("metric-1", b"\x89PNG" * 100_000, "a chart"),)}, 1.2),
        ({"pictures": (Picture("metric-1", b"\x89PNG", "a chart"),) * 30}, 7),
        ({"recipients": tuple(f"somebody-{number}@example.com" for number in range(1000, 2000))}, 1.8),
    ],
)
def test_what_fits_by_little_stays_whole_and_nothing_that_does_not(what: dict[str, object], most: float) -> None:
    message = replace(SMALL, **what)  # type: ignore[arg-type]
    sent = sent_bytes(message)
    assert sent <= least_limit(message) <= most * sent


def test_a_mail_of_a_few_lines_is_small() -> None:
    assert 8_000 < least_limit(SMALL) < 9_000


def test_pictures_are_left_out_before_any_text() -> None:
    whole = replace(SMALL, pictures=(Picture("metric-1", b"\x89PNG" * 100, "a chart"),))
    least = least_limit(SMALL)
    assert fitted(whole, least) == SMALL
    assert fitted(whole, least - 1).text.endswith(NOTE)
    assert fitted(whole, least_limit(whole)) is whole


LINES = "12345678&\n" * 100_000


@pytest.mark.parametrize(("limit", "lines"), [(0, 0), (8_000, 0), (60_000, 135), (100_000, 246), (1_000_000, 2_746)])
def test_the_rest_of_a_long_text_is_left_out_after_a_whole_line(limit: int, lines: int) -> None:
    short = fitted(replace(SMALL, text=LINES), limit)
    beginning = LINES[: 10 * lines].removesuffix("\n")
    assert short.text == beginning + NOTE
    assert short.html == f"<!DOCTYPE html><pre>{(beginning + NOTE).replace('&', '&amp;')}</pre>"
    assert (short.key, short.subject, short.recipients) == (SMALL.key, SMALL.subject, SMALL.recipients)


def test_a_long_subject_takes_room_from_the_text() -> None:
    subject = "s" * 6_000
    assert fitted(replace(SMALL, text=LINES, subject=subject), 60_000).text.count("\n") == 85 + NOTE.count("\n") - 1


def test_halves_of_characters_are_not_left_at_the_end() -> None:
    text = fitted(replace(SMALL, text="é\n" + "観" * 100_000), 60_000).text
    assert text == "é" + NOTE

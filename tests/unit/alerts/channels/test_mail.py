"""A mail within a limit: whole if it surely fits, then without its pictures, then with the beginning of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.channels.mail import LONG_LINES, NOTE, Outbox, as_mail, fitted
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import Message, MessageKind, Picture
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.store import storage
from ml_metrics.store.markers import file_name
from servers.channels import AnyPort, MailServer, mail_server
from unit.alerts.reports import KEY, LOSS, REPORT

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


def test_a_mail_filter_finds_the_test_in_a_header() -> None:
    assert as_mail(replace(SMALL, test="nightly\n"))["X-ML-Metrics-Test"] == "nightly"
    assert as_mail(SMALL)["X-ML-Metrics-Test"] is None


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


def test_halves_of_characters_are_not_left_at_the_end() -> None:
    text = fitted(replace(SMALL, text="é\n" + "観" * 100_000), 60_000).text
    assert text == "é" + NOTE


MESSAGE = compose(REPORT, ["a@example.com", "b@example.com", "a@example.com"], "tests@example.com")
keys = st.text(max_size=150) | st.builds(
    lambda letters, times: letters * times, st.sampled_from(["x", "-", ".", "a b", "a-b"]), st.integers(1, 200)
)


def test_the_key_of_a_run_s_message_is_its_name() -> None:
    key = f"{KEY}-001-broken-0123456789abcdef"
    assert file_name(key) == key
    assert as_mail(replace(MESSAGE, key=key))["Message-ID"] == f"<{key}@ml-metrics.invalid>"


@given(keys, keys)
def test_two_keys_never_have_one_name(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


@given(keys)
def test_a_name_is_safe_in_paths_headers_and_comments(key: str) -> None:
    name = file_name(key)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name)
    assert "--" not in name
    assert len(name) <= 120


def test_halves_of_characters_do_not_keep_a_mail() -> None:
    mail = as_mail(replace(MESSAGE, text="half \ud83d", html="<p>half \ud83d</p>"))
    assert b"half ?" in mail.as_bytes()


def parts(raw: bytes) -> tuple[Any, str, str, list[Any]]:
    mail = message_from_bytes(raw, policy=policy.default)
    text, html = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    pictures = [part for part in mail.walk() if part.get_content_maintype() == "image"]
    plain, page = ("\n".join(part.get_content().splitlines()) for part in (text, html))
    return mail, plain, page, pictures


def test_a_mail_in_the_outbox_opens_in_a_mail_program(tmp_path: Path) -> None:
    path = Outbox(str(tmp_path / "outbox")).send(MESSAGE, 1)
    mail, text, html, (picture,) = parts(Path(path).read_bytes())
    assert mail["Subject"] == MESSAGE.subject
    assert mail["To"] == "a@example.com, b@example.com, a@example.com"
    assert mail["From"] == "tests@example.com"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert text.strip() == MESSAGE.text.strip()
    assert html.strip() == MESSAGE.html.strip()
    assert picture["Content-ID"] == "<metric-1>"
    assert 'src="cid:metric-1"' in html
    assert LOSS.picture
    assert picture.get_content() == LOSS.picture.png


def test_an_outbox_that_cannot_be_written_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("a file")
    with pytest.raises(UndeliveredError, match="could not be saved"):
        Outbox(str(tmp_path / "outbox")).send(MESSAGE, 1)


def test_an_outbox_in_google_cloud_storage_has_one_file_for_a_message(bucket: str) -> None:
    outbox = Outbox(f"{bucket}/outbox")
    assert outbox.send(MESSAGE, 20) == outbox.send(MESSAGE, 20) == f"{bucket}/outbox/{MESSAGE.key}.eml"
    assert [file.name for file in storage.list_files(outbox.folder)] == [f"{MESSAGE.key}.eml"]
    saved = storage.read_bytes(f"{bucket}/outbox/{MESSAGE.key}.eml")
    assert message_from_bytes(saved, policy=policy.default)["Subject"] == MESSAGE.subject


def test_a_mail_server_gets_the_complete_mail_for_each_recipient(smtp: MailServer) -> None:
    Smtp("127.0.0.1", smtp.port, sender="me@example.com", implicit_tls=False, starttls=False).send(MESSAGE, 5)
    (envelope,) = smtp.mails
    assert envelope.mail_from == "tests@example.com"
    assert set(envelope.rcpt_tos) == {"a@example.com", "b@example.com"}
    raw = envelope.content
    assert isinstance(raw, bytes)
    assert parts(raw)[1].strip() == MESSAGE.text.strip()


LIMIT = 60_000


class SmallMails(AnyPort):
    def factory(self) -> SMTP:
        return SMTP(self.handler, data_size_limit=LIMIT)


@pytest.fixture
def small() -> Iterator[MailServer]:
    with mail_server(SmallMails) as server:
        yield server


def test_a_mail_that_is_too_large_goes_without_its_pictures(small: MailServer) -> None:
    charts = (Picture("metric-1", b"\x89PNG" * 20_000, "a chart"),)
    Smtp("127.0.0.1", small.port, starttls=False).send(replace(MESSAGE, pictures=charts), 10)
    (mail,) = small.mails
    assert isinstance(mail.content, bytes)
    assert b"image/png" not in mail.content
    assert b"every run" in mail.content


def test_a_text_that_is_too_large_is_cut_with_a_note(small: MailServer) -> None:
    long = replace(MESSAGE, text="a line of a text\n" * 100_000, html="<p>a line of a page</p>" * 100_000)
    Smtp("127.0.0.1", small.port, starttls=False).send(long, 10)
    (mail,) = small.mails
    assert isinstance(mail.content, bytes)
    assert mail.content.count(b"is left out") == 2, "in the text and in the page"


def test_an_address_that_the_server_cannot_take_is_a_permanent_error(smtp: MailServer) -> None:
    with pytest.raises(UndeliveredError, match="characters that this server cannot take") as caught:
        Smtp("127.0.0.1", smtp.port, starttls=False).send(replace(MESSAGE, recipients=("müller@example.com",)), 5)
    assert not caught.value.transient


def test_a_check_logs_in_and_sends_nothing(smtp: MailServer) -> None:
    server = Smtp("127.0.0.1", smtp.port, starttls=False)
    assert server.check(5) == f"127.0.0.1:{smtp.port} accepts the connection"
    assert smtp.mails == []
    with pytest.raises(UndeliveredError, match="cannot be reached"):
        Smtp("127.0.0.1", 1, starttls=False).check(5)
    with pytest.raises(UndeliveredError, match=r"127\.0\.0\.1"):
        replace(server, login="alice", password="wrong").check(5)

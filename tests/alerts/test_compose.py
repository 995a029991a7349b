from __future__ import annotations

from dataclasses import replace
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from golden import check
from ml_metrics.alerts import outbox
from ml_metrics.alerts.compose import compose, one_line
from ml_metrics.alerts.message import Fact, Message, Occasion, Report
from ml_metrics.errors import AlertError

REPORT = Report(
    occasion=Occasion.BROKEN,
    test="tf-mnist-example-cpu",
    run_key="00000000-0000-5000-8000-000000000000",
    run_id="manual__2026-01-02T03:04:05+00:00",
    owner="vision-team",
    reasons=(
        "Metric `loss` was out of bounds for test `tf-mnist-example-cpu`. Bounds were (-inf, 0.96) and value was 1.79",
        "job_status was `failure` for test `tf-mnist-example-cpu`",
    ),
    facts=(Fact("test", "tf-mnist-example-cpu", "http://localhost:8080/x?a=1&b=2"), Fact("owner", "vision-team")),
    warnings=("train/events: a torn record ends the file",),
)
HOSTILE = "<script>alert(1)</script>\"' onload=x {{ 7 * 7 }}\r\nBcc: everybody@example.com"


@pytest.mark.parametrize("occasion", Occasion)
def test_messages_read_word_for_word(occasion: Occasion) -> None:
    reasons = () if occasion is Occasion.RECOVERED else REPORT.reasons
    report = replace(REPORT, occasion=occasion, reasons=reasons)
    message = compose(report, ["vision-team@example.com"])
    check(f"alerts/{occasion}.txt", f"Subject: {message.subject}\n\n{message.text}")
    check(f"alerts/{occasion}.html", message.html)


def test_hostile_words_stay_words() -> None:
    fact = Fact(HOSTILE, HOSTILE, "javascript:alert(1)")
    said = {"test": HOSTILE, "run_id": HOSTILE, "owner": HOSTILE, "reasons": (HOSTILE,), "warnings": (HOSTILE,)}
    report = replace(REPORT, facts=(fact,), **said)
    message = compose(report, [HOSTILE])
    assert "<script>" not in message.html
    assert "href" not in message.html
    assert "49" not in message.html + message.text
    mail = outbox.as_mail(message, outbox.SENDER)
    read = message_from_bytes(mail.as_bytes(), policy=policy.default)
    assert set(read) == {"Subject", "From", "To", "Date", "Message-ID", "MIME-Version", "Content-Type"}


def test_a_mail_in_the_outbox_opens_in_a_mail_program(tmp_path: Path) -> None:
    message = compose(REPORT, ["a@example.com", "b@example.com"])
    path = outbox.send(message, str(tmp_path / "outbox"))
    mail = message_from_bytes(Path(path).read_bytes(), policy=policy.default)
    assert mail["Subject"] == message.subject
    assert mail["To"] == "a@example.com, b@example.com"
    text, html = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert text and text.get_content().strip() == message.text.strip()  # noqa: PT018
    assert html and html.get_content().strip() == message.html.strip()  # noqa: PT018


def test_the_same_message_twice_is_one_mail(tmp_path: Path) -> None:
    message = compose(REPORT, ())
    assert outbox.send(message, str(tmp_path / "outbox")) == outbox.send(message, str(tmp_path / "outbox"))
    assert len(list((tmp_path / "outbox").iterdir())) == 1


def test_an_outbox_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "outbox").write_text("a file")
    with pytest.raises(AlertError, match="could not be kept"):
        outbox.send(Message("k", "s", "t", "h", ()), str(tmp_path / "outbox"))


def test_a_header_is_one_short_line() -> None:
    assert one_line("a\r\nb\u2028c\x00d") == "a b c d"
    assert len(one_line("x" * 1000)) == 180

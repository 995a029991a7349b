from __future__ import annotations

from dataclasses import replace

import pytest

from golden import check
from ml_metrics.alerts.compose import compose, one_line, subject_of
from ml_metrics.alerts.message import MessageKind
from unit.alerts.reports import LOSS, REPORT

RUN_OCCASIONS = [each for each in MessageKind if each not in {MessageKind.DIGEST, MessageKind.HEARTBEAT}]


@pytest.mark.parametrize("occasion", RUN_OCCASIONS)
def test_messages_match_their_golden_files(occasion: MessageKind) -> None:
    problems = () if occasion is MessageKind.RECOVERED else REPORT.problems
    suspects = () if occasion is MessageKind.RECOVERED else REPORT.suspects
    report = replace(REPORT, kind=occasion, problems=problems, suspects=suspects)
    message = compose(report, ["vision-team@example.com"])
    check(f"alerts/{occasion}.txt", f"Subject: {message.subject}\n\n{message.text}")
    check(f"alerts/{occasion}.html", message.html)


def test_a_subject_has_the_test_and_the_first_problem() -> None:
    assert subject_of(REPORT) == "[ML Metrics] tf-mnist-example-cpu failed: loss_final out of bounds (+1 more)"


def test_a_long_subject_keeps_its_start_and_count() -> None:
    problems = (replace(LOSS, short="x" * 300), LOSS)
    subject = subject_of(replace(REPORT, problems=problems))
    assert len(subject) <= 120
    assert subject.startswith("[ML Metrics] tf-mnist-example-cpu failed: x")
    assert subject.endswith("… (+1 more)")


def test_a_header_is_one_short_line() -> None:
    assert one_line("a\r\nb\u2028c\x00d\u202ee") == "a b c d e"
    assert len(one_line("x" * 1000)) == 180


def test_a_mail_can_have_a_thousand_problems() -> None:
    report = replace(REPORT, problems=(LOSS,) * 1000)
    message = compose(report, [])
    assert message.subject.endswith("(+999 more)")
    assert message.text.count("out of bounds for test") == 1000

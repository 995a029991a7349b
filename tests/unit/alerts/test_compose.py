from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from golden import check
from ml_metrics.alerts import one_line
from ml_metrics.alerts.compose import MAX_ROWS, compose, compose_heartbeat, compose_notice, subject_of
from ml_metrics.alerts.message import (
    NOTICES,
    BrokenTest,
    Fact,
    FailingTest,
    Heartbeat,
    MessageKind,
    MissedRuns,
    Notice,
    QuarantinedTest,
    UndecidedMetric,
    UnfitCondition,
    UnsentMessage,
)
from unit.alerts.reports import LOSS, REPORT, report_of_kind
from unit.alerts.samples import HEARTBEAT

SINCE = datetime(2026, 1, 5, 7, tzinfo=UTC)
RUN_OCCASIONS = [each for each in MessageKind if each not in {MessageKind.DIGEST, MessageKind.HEARTBEAT, *NOTICES}]


@pytest.mark.parametrize("occasion", RUN_OCCASIONS)
def test_messages_match_their_golden_files(occasion: MessageKind) -> None:
    problems = () if occasion is MessageKind.RECOVERED else REPORT.problems
    suspects = () if occasion is MessageKind.RECOVERED else REPORT.suspects
    report = report_of_kind(occasion, problems=problems, suspects=suspects)
    message = compose(report, ["vision-team@example.com"])
    check(f"alerts/{occasion}.txt", f"Subject: {message.subject}\n\n{message.text}")
    check(f"alerts/{occasion}.html", message.html)


def test_the_heartbeat_matches_its_golden_files() -> None:
    heartbeat = replace(HEARTBEAT, on_time=10)
    message = compose_heartbeat("heartbeat-1", heartbeat, ["a@example.com"], "", "https://airflow.example/ml-metrics")
    check("alerts/heartbeat.txt", f"Subject: {message.subject}\n\n{message.text}")
    check("alerts/heartbeat.html", message.html)
    assert [reason.name for reason in message.reasons][2:] == [
        "undecided:tf-mnist-example-cpu:loss_final",
        "undecided:pt-bert-func-v5e-8:total_wall_time",
        "unfit:jax-resnet50-conv-v5e-8:accuracy_final",
    ]


LISTS: dict[str, Any] = {
    "broken": BrokenTest("t", "file", "a sentence"),
    "paused": "t",
    "missed": MissedRuns("t", 2, 1, None),
    "undecided": UndecidedMetric("t", "m", 20, "a reason"),
    "unfit": UnfitCondition("t", "m", "a problem"),
    "failing": FailingTest("t", SINCE, tuple("abcdefg")),
    "unsent": UnsentMessage("a subject", SINCE, "a problem"),
    "quarantined": QuarantinedTest("t", SINCE.date(), "a reason"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_heartbeat_counts_what_it_does_not_list(name: str) -> None:
    lists: dict[str, Any] = {name: (LISTS[name],) * (MAX_ROWS + 2)}
    message = compose_heartbeat("k", Heartbeat(SINCE, 60, **lists), [], "", "")
    for body in (message.text, message.html):
        assert body.count("and 2 more") == 1
        assert body.count("a, b, c, d, e (+2 more)") == (MAX_ROWS if name == "failing" else 0)


def test_a_subject_has_the_test_and_the_first_problem() -> None:
    assert (
        subject_of(REPORT) == "[ML Metrics] tf-mnist-example-cpu failed: loss_final 1.79, must be below 0.96 (+1 more)"
    )


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
    assert message.text.count("must be below") == 20
    assert "and 980 more" in message.text


def test_a_notice_has_its_table_links_and_reasons() -> None:
    rows = tuple(Fact(f"test-{number}", "failed", f"https://x.example/{number}") for number in range(60))
    buttons = (Fact("open", "Open the dashboard", "https://x.example/"), Fact("bad", "No", "javascript:alert(1)"))
    notice = Notice("60 tests failed within an hour", ("They share node pool a.",), rows, buttons, owner="on-call")
    message = compose_notice("mass-1", MessageKind.MASS, notice, ["duty@example.com"])
    assert message.subject == "[ML Metrics] 60 tests failed within an hour"
    assert (message.kind, message.owner, message.test) == (MessageKind.MASS, "on-call", "")
    assert message.links[0].link == "https://x.example/"
    assert "javascript" not in message.html + message.text
    assert "and 10 more" in message.text
    assert message.reasons[0].sentence == "They share node pool a."

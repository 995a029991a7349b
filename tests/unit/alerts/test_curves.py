"""A curve over a load in messages: its picture, its acceptance and a quarantine, through the steps of runs."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ml_metrics.airflow import warehouse
from ml_metrics.core.model import Sweep, SweepPoint
from ml_metrics.pipeline import RunState
from ml_metrics.ui import cli
from simulated_runs import NAME, good, notify_about, run_of, simulate, with_test
from unit.alerts.mailbox import mails, subjects, text_of

METRIC = "curve/ttft"
DAY = with_test(good(), regression_test_config={"curves": {"ttft": {"comparison": "less"}}})


def day(number: int, slow: float) -> RunState:
    """Run the test on a day and send what is to be sent."""
    chance = random.Random(number)
    points = (
        SweepPoint(x, (9 + x) * chance.gauss(1, 0.01) * (slow if x > 8 else 1)) for x in (1.0, 2, 4, 8, 16, 32, 64)
    )
    run = replace(DAY, metrics={METRIC: 100.0}, sweeps=(Sweep("ttft", "rate", tuple(points), "1/s", "ms", "lower"),))
    folder = simulate(number, run)
    notify_about(number, run)
    return RunState(folder)


def outcome(state: RunState) -> str:
    assert state.judgement is not None
    (verdict,) = state.judgement.verdicts
    assert verdict.metric == METRIC
    return str(verdict.outcome)


def test_a_worse_curve_is_one_mail_with_its_picture_until_it_is_accepted() -> None:
    found = [outcome(day(number, 1.4 if number > 13 else 1.0)) for number in range(1, 18)]
    assert found[-4:] == ["pass", "pass", "fail", "fail"]
    (mail,) = mails()
    assert "ttft is worse from 16 on by +" in mail["Subject"]
    assert "ttft over rate, over the range of 13 runs before" in text_of(mail, "html")
    (picture,) = [part for part in mail.walk() if part.get_content_maintype() == "image"]
    assert picture.get_content().startswith(b"\x89PNG")
    assert cli.main(["accept", NAME, METRIC, "--run", run_of(14).key, "--reason", "a new model"]) == 0
    after = [outcome(day(number, 1.4 * (1.3 if number > 29 else 1.0))) for number in range(18, 34)]
    assert after[:12] == ["insufficient_data"] * 6 + ["pass"] * 6, "the history begins with the accepted run"
    assert after[12:] == ["pass", "pass", "fail", "fail"], "the accepted curve is the one to keep"
    assert [one.split(": ")[0] for one in subjects()[1:]] == [
        f"[ML Metrics] {NAME} recovered after 2 days",
        f"[ML Metrics] {NAME} failed",
    ]


def test_a_curve_in_quarantine_is_judged_and_not_told() -> None:
    with warehouse() as opened:
        until = datetime.now(UTC) + timedelta(days=1)
        opened.quarantines.set(NAME, until=until, reason="a new switch", by="vera")
    assert [outcome(day(number, 1.4 if number > 13 else 1.0)) for number in range(1, 17)][-1] == "fail"
    assert subjects() == []
    with warehouse() as opened:
        opened.quarantines.set(NAME, until=datetime.now(UTC), reason="it is back", by="vera")
    assert outcome(day(17, 1.4)) == "fail"
    assert len(subjects()) == 1

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import send_due_digests
from simulated_runs import SimulatedRun, good, notify_about, simulate, with_test
from unit.alerts.mailbox import mails, text_of

OPTIONAL = {"comparison": "less", "success_threshold": {"fixed_value": 1}, "optional": True}
CONDITIONS = {"metric_success_conditions": {"accuracy_final": {**OPTIONAL, "optional": False}, "gone_*": OPTIONAL}}
RUN = with_test(good(accuracy_final=0.5), regression_test_config=CONDITIONS)
SENTENCE = "gone_*: skipped in the last 10 runs: no run has produced a metric that the condition `gone_*` matches"


def run_and_notify(numbers: range, simulated: SimulatedRun = RUN) -> None:
    for number in numbers:
        simulate(number, simulated)
        notify_about(number, simulated)


def held() -> list[tuple[str, ...]]:
    with warehouse() as open_warehouse:
        waiting = open_warehouse.messages.held(datetime.now(UTC) - timedelta(days=1))
    return [one.reasons for one in waiting]


def test_lasting_silence_is_in_the_digest_once() -> None:
    run_and_notify(range(1, 10))
    assert held() == []
    run_and_notify(range(10, 14))
    assert held() == [(SENTENCE,)]
    with warehouse() as open_warehouse:
        mail, now = load_mail_settings(), datetime.now(UTC)
        assert send_due_digests(open_warehouse, mail, now) == 0, "it can wait for a day"
        assert send_due_digests(open_warehouse, mail, now + timedelta(days=31)) == 0, "after a month it is no news"
        assert send_due_digests(open_warehouse, mail, now + timedelta(days=1)) == 1
    (sent,) = mails()
    assert SENTENCE in text_of(sent)
    assert "a condition that does not decide" in text_of(sent)
    run_and_notify(range(14, 16))
    assert held() == []


def test_a_second_condition_that_falls_silent_is_told_beside_the_first() -> None:
    run_and_notify(range(1, 11))
    conditions = {**CONDITIONS["metric_success_conditions"], "lost_*": OPTIONAL}
    run_and_notify(range(11, 22), with_test(RUN, regression_test_config={"metric_success_conditions": conditions}))
    assert [reason.partition(":")[0] for (reason,) in held()] == ["gone_*", "lost_*"]


@pytest.mark.parametrize(
    "changed",
    [
        {"quarantine": {"until": "2999-12-31", "reason": "the data set moves", "owner": "vision-team"}},
        {"metric_collection_config": {"write_to_bigquery": False}},
    ],
    ids=["in quarantine", "no longer recorded"],
)
def test_a_test_in_quarantine_or_without_rows_is_left_alone(changed: dict[str, Any]) -> None:
    run_and_notify(range(1, 13), with_test(RUN, **changed))
    assert held() == []

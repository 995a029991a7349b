"""Messages of every kind as people get them, with charts: what the tests of the look draw."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ml_metrics.alerts.charts.frame import as_png
from ml_metrics.alerts.charts.metric import mail_chart
from ml_metrics.alerts.compose import compose, compose_notice
from ml_metrics.alerts.heartbeat import Heartbeat, compose_heartbeat
from ml_metrics.alerts.heartbeat import Line as Row
from ml_metrics.alerts.message import Fact, Log, Message, MessageKind, Notice, Picture, Problem, Report, page_of_cause
from ml_metrics.alerts.night import Line, Night
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from unit.alerts.hostile import HOSTILE
from unit.alerts.reports import CRASHED, JOB, LOSS, REPORT, TEST, report_of_kind

NOON = datetime(2026, 1, 21, 12, tzinfo=UTC)
DASHBOARD = "https://airflow.example/ml-metrics"
TO = ["vision-team@example.com"]
CRASH = Problem(
    name="job_status:",
    short="ModuleNotFoundError: No module named 'flax.optim'",
    sentence="ModuleNotFoundError: No module named 'flax.optim'",
    log=Log(
        "The last 5 lines of the log of the container base",
        (
            "I0121 11:58:03.101 loading the data set from gs://datasets/imagenet/2012",
            "Traceback (most recent call last):",
            '  File "/app/train.py", line 3, in <module>',
            "    from flax.optim import Momentum, dynamic_scale as dynamic_scale_lib, an_even_longer_name_of_a_module",
            "ModuleNotFoundError: No module named 'flax.optim'",
        ),
    ),
)


def chart(name: str = "metric-1", *, bad: float = 1.79, bound: float = 0.96) -> Picture:
    """Return the chart of a metric that rose above its bound in its last run."""
    chance = random.Random(1)
    values = [0.9 + chance.uniform(-0.03, 0.03) for _ in range(20)] + [bad]
    points = [
        StoredMetric(
            f"run {day}",
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day),
            "loss_final",
            value,
            JobStatus.SUCCESS,
            Outcome.PASS if value < bound else Outcome.FAIL,
            upper=bound,
        )
        for day, value in enumerate(values)
    ]
    return Picture(name, as_png(mail_chart(points)), f"loss_final in its last {len(points)} runs, with its bounds")


def samples() -> dict[str, Message]:
    """Return a message of each kind."""
    loss = replace(LOSS, picture=chart())
    crashed = report_of_kind(MessageKind.BROKEN, CRASHED, suspects=(), warnings=(), start="")
    memory = replace(loss, picture=None, sentence="memory 5 GB, must be below 4 GB")
    one = replace(REPORT, problems=(loss,), suspects=(), warnings=())
    accuracy = replace(LOSS, name="out_of_bounds:accuracy", sentence="accuracy 0.9018, must be above 0.96", known=True)
    many = tuple(
        replace(LOSS, sentence=f"loss_layer_{number} {9 - number / 100:g}, must be below 0.96", picture=None, facts=())
        for number in range(100)
    )
    hostile = tuple(replace(LOSS, sentence=each, picture=None, facts=(Fact("rule", each),)) for each in HOSTILE)
    return {
        "metric": compose(one, TO),
        "crash": compose(replace(crashed, problems=(CRASH,)), TO),
        "memory": compose(replace(crashed, problems=(JOB,), first="Raise the memory limit."), TO),
        "both": compose(replace(REPORT, problems=(loss, JOB)), TO),
        "worse": compose(replace(one, kind=MessageKind.WORSE, problems=(loss, replace(accuracy, picture=None))), TO),
        "warning": compose(replace(one, warned=(memory,)), TO),
        "recovered": compose(_recovered(), TO),
        "many": compose(
            replace(one, problems=(loss, *many), total=20_000, counted=("19,990 out of bounds", "10 missing")), TO
        ),
        "hostile": compose(replace(one, test="x" * 200, problems=hostile, warnings=tuple(HOSTILE)), TO),
        "digest": _digest(),
        "heartbeat": _heartbeat(),
        "incident": _incident(),
    }  # fmt: skip


def _recovered() -> Report:
    return report_of_kind(
        MessageKind.RECOVERED,
        problems=(),
        suspects=(),
        warnings=(),
        first="",
        start=" after 4 days",
        headline="accuracy_final 0.9661, was 0.9018, must be above 0.96",
        total=2,
        sentences=("It was broken for 4 days, in 4 runs, since 2026-01-07 03:05 UTC: accuracy_final out of bounds.",),
        values=(Fact("loss_final", "0.0996, must be below 0.1014"),),
    )


def _digest() -> Message:
    night = Night(
        NOON - timedelta(days=1),
        NOON,
        tests=12,
        judged=140,
        needs=(Line("pt-bert-func-v5e-8", "exit code 3, since 2026-01-21"),),
        silent=(
            Line(TEST, "got worse: loss_final 0.4, must be below 0.1014 (the incident is acknowledged, since TODAY)"),
            Line(TEST, "has a warning: memory 5.02 GB, must be below 4 GB (a warning, since TODAY)"),
        ),
    )
    return compose_notice("digest-1", MessageKind.DIGEST, night.notice(DASHBOARD), TO)


HEARTBEAT = Heartbeat(
    datetime(2026, 1, 12, 7, tzinfo=UTC),
    tests=12,
    lines={
        "missed": [
            Row("tf-mnist-example-cpu", "ran 5 of 7 times, last at 2026-01-12 07:00 UTC"),
            Row("pt-bert-func-v5e-8", "ran 0 of 7 times, never ran before"),
        ],
        "failing": [
            Row("jax-resnet50-conv-v5e-8", "loss_final out of bounds", "since 2026-01-12, acknowledged by ada")
        ],
        "quarantined": [Row("pt-llama-func-h100-8", "until 2026-02-01: the data set moves")],
        "undecided": [
            Row(
                "tf-mnist-example-cpu",
                "loss_final: change_point needs 20 earlier runs",
                "insufficient data in the last 45 runs",
            ),
            Row(
                "pt-bert-func-v5e-8", "total_wall_time: stddevs_from_mean needs 10 earlier runs", "in the last 31 runs"
            ),
        ],
        "unfit": [Row("jax-resnet50-conv-v5e-8", "accuracy_final can never fail: its bounds are far away")],
    },
    counts={"never": 1, "on_time": 10},
)


def _heartbeat() -> Message:
    return compose_heartbeat("heartbeat-1", HEARTBEAT, TO, "", DASHBOARD)


def _incident() -> Message:
    tests = ("tf-mnist-example-cpu", "pt-bert-func-v5e-8", "jax-resnet50-conv-v5e-8")
    rows = tuple(
        Fact(test, "failed: the job never started: no node fits", f"{DASHBOARD}/test?test={test}") for test in tests
    )
    notice = Notice(
        headline="3 tests failed since 11:20: no node fits in pool v5e-8",
        sentences=(
            "They share the node pool v5e-8 and the reason Unschedulable, within 40 minutes.",
            "First: check that the pool has free nodes; the tests themselves may be fine.",
        ),
        items=rows,
        buttons=(Fact("inbox", "Open the incident", page_of_cause(DASHBOARD, "no node fits in pool v5e-8")),),
    )
    return compose_notice("incident-1", MessageKind.INCIDENT, notice, TO)

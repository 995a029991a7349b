"""Goodput from what a program prints is that of the recorder, for runs that have both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure import LOG_PROFILES, read_printed_steps
from ml_metrics.measure.goodput import EntriesInMemory, measure
from ml_metrics.measure.readers.printed_steps import Printed, time_in
from unit.measure.collect.formats.sample_files import InMemory

if TYPE_CHECKING:
    from ml_metrics.measure.goodput import GoodputReport

START = datetime(2026, 8, 22, 10, tzinfo=UTC)
SAVE = "save"


def absl(at: float, step: int, seconds: float) -> str:
    when = START + timedelta(seconds=at)
    return f"I{when:%m%d %H:%M:%S.%f} 1 m.py:2] completed step: {step}, seconds: {seconds:.3f}, loss: 2.1\n"


def megatron(at: float, step: int, seconds: float) -> str:
    when = START + timedelta(seconds=at)
    return (
        f" [{when:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8}/ 100 | elapsed time per iteration (ms): "
        f"{seconds * 1e3:.1f} | lm loss: 1.05E+01 |\n"
    )


def torchtitan(at: float, step: int, tokens_per_second: float) -> str:
    when = START + timedelta(seconds=at)
    return (
        f"[titan] {when:%Y-%m-%d %H:%M:%S},{when.microsecond // 1000:03} - root - INFO - step: {step:2}  loss:  8.0  "
        f"grad_norm:  0.3  memory:  1.40GiB(1.76%)  tps: {round(tokens_per_second):,}  tflops: 8.63  mfu: 0.87%\n"
    )


class Job:
    """A job that records its steps and prints them, with a clock of its own."""

    def __init__(self, line: Any, every: int = 1) -> None:
        self.line, self.every, self.now, self.text = line, every, 0.0, ""
        self.entries: list[dict[str, Any]] = []
        self.starts: list[float] = []
        self.last = 0.0

    def record(self, **fields: Any) -> None:
        times = {key: value + START.timestamp() for key, value in fields.items() if key.endswith("_time")}
        self.entries.append({"job_name": "j", **fields, **times})

    def begin(self, seconds: float) -> None:
        self.starts.append(self.now)
        self.record(job_start_time=self.now)
        self.now += seconds

    def step(self, number: int, seconds: float, saved: float) -> None:
        self.record(step_count=number, step_start_time=self.now)
        self.now += seconds
        self.last += seconds
        if number % self.every == self.every - 1:
            self.text += self.line(self.now, number, self.last / self.every)
            self.last = 0.0
        if saved:
            self.record(custom_badput_event_start_time=self.now, custom_badput_event_type=SAVE)
            self.now += saved
            self.record(custom_badput_event_end_time=self.now, custom_badput_event_type=SAVE)

    def end(self) -> tuple[GoodputReport, GoodputReport]:
        self.record(job_end_time=self.now)
        starts = [START + timedelta(seconds=one) for one in self.starts]
        ended = START + timedelta(seconds=self.now)
        workload = Workload(
            JobStatus.SUCCESS, started_at=starts[-1], ended_at=ended, earlier=tuple((one, None) for one in starts[:-1])
        )
        found = printed(self.text, workload, {absl: "maxtext", megatron: "megatron"}[self.line])
        assert found.warnings == []
        return measure(EntriesInMemory(self.entries)), measure(EntriesInMemory(found.entries))


def printed(text: str, workload: Workload, profile: str = "maxtext", name: str = "a.log") -> Printed:
    return read_printed_steps([InMemory(text.encode(), name)], LOG_PROFILES[profile], workload, Allowance(), "j")


@settings(max_examples=20, deadline=None)
@example(absl, [1.0] * 9 + [0.5] + [1.0] * 10, 1.0, 5, 1.0, 10)
@given(
    st.sampled_from([absl, megatron]),
    st.lists(st.floats(0.5, 1.5), min_size=20, max_size=60),
    st.floats(1, 60),
    st.integers(5, 15),
    st.floats(1, 30),
    st.none() | st.integers(10, 19),
)
def test_goodput_is_within_one_percent_of_the_recorder(
    line: Any, seconds: list[float], startup: float, every: int, saving: float, killed_at: int | None
) -> None:
    """With saves that are recorded as an event, and with a restart from the newest save."""
    job = Job(line)
    job.begin(startup)
    step, killed = 0, killed_at is None
    while step < len(seconds):
        if not killed and step == killed_at:
            killed = True
            job.now += 20.0
            job.begin(startup)
            step = step // every * every
        job.step(step, seconds[step], saving if step % every == every - 1 else 0.0)
        step += 1
    recorded, from_log = job.end()
    # a log does not say when the last step before the kill ended: it takes as long as others, which differ by a second
    unknown = 0.0 if killed_at is None else 100 / job.now
    assert from_log.goodput_percent == pytest.approx(recorded.goodput_percent, rel=0.01, abs=0.5 + unknown)


def test_lines_of_every_tenth_step_are_ten_steps() -> None:
    job = Job(megatron, every=10)
    job.begin(30)
    for step in range(100):
        job.step(step, 1.0, 15.0 if step % 50 == 49 else 0.0)
    recorded, from_log = job.end()
    assert from_log.goodput_percent == pytest.approx(recorded.goodput_percent, rel=0.01)


@pytest.mark.parametrize("first", [1, 51])
def test_a_first_step_that_is_printed_by_itself_is_one_step(first: int) -> None:
    """Megatron-LM prints the first step after a (re)start, and then every tenth: 51, 60, 70."""
    text = absl(30, first, 9.0) + "".join(
        absl(30 + 10 * one - first % 10, first // 10 * 10 + 10 * one, 1.0) for one in range(1, 5)
    )
    found = printed(text, Workload(JobStatus.SUCCESS, started_at=START, ended_at=START + timedelta(seconds=80)))
    starts = {
        one["step_count"]: one["step_start_time"] - START.timestamp() for one in found.entries if "step_count" in one
    }
    assert starts == {
        first: pytest.approx(21),
        **{step: pytest.approx(30 + step - first - 1) for step in range(first + 1, first + 40)},
    }


def test_tokens_per_second_tell_what_a_validation_took_that_is_between_two_lines() -> None:
    """The rate of torchtitan does not count validations; that of every step differs."""
    now, text = 30.0, ""
    for step in range(10, 210, 10):
        seconds = 1.0 + step % 30 / 100
        now += 10 * seconds + (15.0 if step % 50 == 10 and step > 10 else 0.0)
        text += torchtitan(now, step, 16_384 / seconds)
    workload = Workload(JobStatus.SUCCESS, started_at=START, ended_at=START + timedelta(seconds=now))
    report = measure(EntriesInMemory(printed(text, workload, "torchtitan").entries))
    assert report.custom_badput_seconds == {"BETWEEN_STEPS": pytest.approx(45, rel=0.01)}
    assert report.productive_seconds == pytest.approx(
        200 + 10 * sum(step % 30 / 100 for step in range(10, 210, 10)), rel=0.01
    )


@pytest.mark.parametrize("hours", [0, -7, 5.5, 14])
def test_times_without_a_zone_are_moved_into_the_time_of_the_workload(hours: float) -> None:
    text = "".join(absl(60 + step + hours * 3600, step, 1.0) for step in range(20))
    found = printed(text, Workload(JobStatus.SUCCESS, started_at=START, ended_at=START + timedelta(seconds=90)))
    first = next(entry for entry in found.entries if "step_count" in entry)
    assert first["step_start_time"] == pytest.approx(START.timestamp() + 59)


def test_what_gives_no_goodput_has_a_reason() -> None:
    workload = Workload(JobStatus.SUCCESS, started_at=START, ended_at=START + timedelta(seconds=90))
    doubled = "".join(absl(60 + step, step, 1.0) * 2 for step in range(20))
    assert "several hosts" in printed(doubled, workload).warnings[0]
    long = "".join(absl(60 * step, step, 1.0) for step in range(20))
    assert "not between the start and the end" in printed(long, workload).warnings[0]
    assert printed("nothing\n", workload) == Printed()
    assert printed(doubled, Workload(JobStatus.MISSED)) == Printed()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[titan] 2026-01-01 10:00:00,500 - root", datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-01T10:00:00Z x", datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("2026-01-01T10:00:00+0200 x", datetime(2026, 1, 1, 8, tzinfo=UTC)),
        ("I0102 10:00:00.25 7 x.py] y", datetime(2027, 1, 2, 10, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-13-01 10:00:00", None),
        ("I1399 10:00:00.25 7 x.py] y", None),
        ("I0229 10:00:00.25 7 x.py] y", datetime(2028, 2, 29, 10, 0, 0, 250_000, tzinfo=UTC)),
        ("0001-01-01 00:00:00+05:00 x", None),
        ("step: 4", None),
    ],
)
def test_the_time_of_a_line(text: str, expected: datetime | None) -> None:
    assert time_in(text, (START, START)) == (None if expected is None else expected.timestamp())


@given(
    st.datetimes(datetime(2001, 1, 2), datetime(2100, 1, 1)),
    st.timedeltas(timedelta(), timedelta(days=300)),
    st.floats(0, 1),
    st.integers(-14 * 4, 14 * 4),
)
def test_a_time_without_its_year_is_in_the_year_of_its_run(
    started: datetime, took: timedelta, share: float, quarters: int
) -> None:
    """Whatever the zone of the workload, over New Year, and on 29 February."""
    started = started.replace(tzinfo=UTC)
    meant = started + took * share + quarters * timedelta(minutes=15)
    line = f"I{meant:%m%d %H:%M:%S.%f} 1 m.py:2] completed step: 1"
    assert time_in(line, (started, started + took)) == pytest.approx(meant.timestamp(), abs=1e-3)


def test_a_run_at_new_year_west_of_utc_has_goodput() -> None:
    started = datetime(2027, 1, 1, 0, 30, tzinfo=UTC)
    local = started - timedelta(hours=8) - START
    text = "".join(absl(local.total_seconds() + 60 + step, step, 1.0) for step in range(20))
    found = printed(text, Workload(JobStatus.SUCCESS, started_at=started, ended_at=started + timedelta(seconds=90)))
    assert found.warnings == []
    first = next(entry for entry in found.entries if "step_count" in entry)
    assert first["step_start_time"] == pytest.approx(started.timestamp() + 59)

"""Accumulating the points of line files: their order in time, and the memory that they take."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.limits import Allowance, Limits
from ml_metrics.measure import readings
from ml_metrics.measure.readings import Readings
from unit.measure.collect.formats.sample_files import InMemory
from unit.measure.collect.run_folders import by_name, collected

BYTES_OF_A_POINT = 24
SUMMER_TIME_ENDS = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def local_times(zone: str, count: int) -> list[str]:
    times = [SUMMER_TIME_ENDS + number * MINUTE for number in range(count)]
    return [time.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S") for time in times]


@pytest.mark.parametrize("name", ["metrics.csv", "metrics.jsonl"])
@pytest.mark.parametrize("count", [40, 60, 89, 120])
def test_final_is_the_last_step_when_summer_time_ends(tmp_path: Path, name: str, count: int) -> None:
    rows = list(enumerate(local_times("Europe/Berlin", count)))
    lines = (
        ["step,time,loss", *(f"{step},{time},{step}" for step, time in rows)]
        if name.endswith("csv")
        else [f'{{"step": {step}, "time": "{time}", "loss": {step}.0}}' for step, time in rows]
    )
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    found = collected(tmp_path, default_aggregation_strategies=["final", "first"])
    assert {name: one.value for name, one in by_name(found).items()} == {"loss_final": count - 1, "loss_first": 0}
    assert found.warnings == ()


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=30))
def test_final_is_the_last_line_of_a_file_whose_steps_grow(times: list[int]) -> None:
    with TemporaryDirectory() as folder:
        rows = [f'{{"step": {step}, "timestamp": {time}, "loss": {step}.0}}\n' for step, time in enumerate(times)]
        (Path(folder) / "metrics.jsonl").write_text("".join(rows))
        assert by_name(collected(Path(folder)))["loss_final"].value == len(times) - 1


def test_a_restart_counts_by_its_times(tmp_path: Path) -> None:
    newest_first = [(3, 30), (2, 20), (1, 10)]
    restarted = [(1, 10), (2, 20), (3, 30), (2, 40)]
    set_back_after_it = [(5, 50), (6, 90), (1, 80), (2, 100), (3, 60)]
    for rows, expected in ((newest_first, 3), (restarted, 2), (set_back_after_it, 3)):
        lines = [f'{{"step": {step}, "timestamp": {time}, "loss": {step}.0}}\n' for step, time in rows]
        (tmp_path / "metrics.jsonl").write_text("".join(lines))
        assert by_name(collected(tmp_path))["loss_final"].value == expected


def test_a_point_takes_little_more_memory_than_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "MAX_WAITING", 5_000)
    found, count = Readings(), 200_000
    found.begin(InMemory(b"", "a.txt"))
    tracemalloc.start()
    for step in range(count):
        found.point("loss", step, step * 0.5, step * 0.25)
    (series,) = found.found().series
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert series.step.tolist() == list(range(count))
    assert peak < 1.6 * BYTES_OF_A_POINT * count


def test_points_beyond_the_limit_are_left_out_but_those_of_tags_that_come_first() -> None:
    allowance = Allowance(Limits(points=10), lambda tag: tag == "judged")
    found = Readings(allowance)
    found.begin(InMemory(b"", "a.txt"))
    for step in range(8):
        for name in ("other", "judged"):
            found.point(name, step, 0.0, 1.0)
    assert {one.tag: one.step.tolist() for one in found.found().series} == {
        "other": list(range(8)), "judged": list(range(8)),
    }  # fmt: skip
    found.begin(InMemory(b"", "b.txt"))
    found.point("third", 1, 0.0, 1.0)
    assert found.found().series == []
    assert allowance.warnings() == ["1 points were left out: a run may have 10 (max_points)"]

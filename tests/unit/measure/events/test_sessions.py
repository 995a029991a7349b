"""Restarts: by default every point counts; with `supersede`, later sessions replace earlier points."""

from pathlib import Path

import pytest

from unit.measure.events.event_files import event, read, session_start, simple, steps_and_values, version, write


def losses(steps: range, value: float, tag: str = "loss") -> list[bytes]:
    return [event(step, simple(tag, value)) for step in steps]


def test_every_point_of_both_files_counts(tmp_path: Path) -> None:
    write(tmp_path, version(), *losses(range(10), 1), name="events.out.tfevents.1")
    write(tmp_path, version(), *losses(range(6, 12), 2), name="events.out.tfevents.2")
    assert steps_and_values(read(tmp_path), "loss") == [
        *((step, 1.0) for step in range(10)),
        *((step, 2.0) for step in range(6, 12)),
    ]


def test_points_of_files_that_are_decoded_together_keep_the_order_of_the_files(tmp_path: Path) -> None:
    """Many records of a length are read in columns, and a single one of another length on its own."""
    write(tmp_path, *losses(range(200, 500), 1), name="events.out.tfevents.1")
    write(tmp_path, *losses(range(3), 2), name="events.out.tfevents.2")
    expected = [*((step, 1.0) for step in range(200, 500)), *((step, 2.0) for step in range(3))]
    assert steps_and_values(read(tmp_path), "loss") == expected


@pytest.mark.parametrize("count", [10, 1000])
def test_points_are_superseded_from_the_first_step_of_the_later_file(tmp_path: Path, count: int) -> None:
    write(tmp_path, version(), *losses(range(count), 1), name="events.out.tfevents.1")
    write(tmp_path, version(), *losses(range(6, count + 2), 2), name="events.out.tfevents.2")
    assert steps_and_values(read(tmp_path, supersede=True), "loss") == [
        *((step, 1.0) for step in range(6)),
        *((step, 2.0) for step in range(6, count + 2)),
    ]


def test_a_session_may_state_its_first_step(tmp_path: Path) -> None:
    write(
        tmp_path, version(), *losses(range(10), 1), *losses(range(10), 1, "only before"), name="events.out.tfevents.1"
    )
    write(tmp_path, version(), session_start(4), *losses(range(8, 10), 2), name="events.out.tfevents.2")
    events = read(tmp_path, supersede=True)
    assert steps_and_values(events, "loss") == [*((step, 1.0) for step in range(4)), (8, 2.0), (9, 2.0)]
    assert steps_and_values(events, "only before") == [(step, 1.0) for step in range(4)]


@pytest.mark.parametrize("count", [10, 1000])
def test_a_session_that_starts_inside_a_file(tmp_path: Path, count: int) -> None:
    write(tmp_path, *losses(range(count), 1), session_start(4), *losses(range(4, count), 2), session_start(7),
          *losses(range(7, 9), 3))  # fmt: skip
    expected = [*((step, 1.0) for step in range(4)), (4, 2.0), (5, 2.0), (6, 2.0), (7, 3.0), (8, 3.0)]
    assert steps_and_values(read(tmp_path, supersede=True), "loss") == expected
    assert len(read(tmp_path).series[0]) == count + count - 4 + 2


def test_a_third_session_supersedes_both_earlier_ones(tmp_path: Path) -> None:
    for number, (begin, end) in enumerate([(0, 10), (5, 9), (3, 6)]):
        write(tmp_path, *losses(range(begin, end), number), name=f"events.out.tfevents.{number}")
    expected = [*((step, 0.0) for step in range(3)), *((step, 2.0) for step in range(3, 6))]
    assert steps_and_values(read(tmp_path, supersede=True), "loss") == expected


def test_sessions_of_different_folders_are_independent(tmp_path: Path) -> None:
    write(tmp_path / "a", *losses(range(5), 1))
    write(tmp_path / "b", session_start(0), *losses(range(5), 2))
    events = read(tmp_path, supersede=True)
    assert [(one.run, len(one)) for one in events.series] == [("a", 5), ("b", 5)]


def test_thousands_of_sessions_in_one_file(tmp_path: Path) -> None:
    write(tmp_path, *(one for step in range(3000) for one in (session_start(step), event(step, simple("t", step)))))
    assert steps_and_values(read(tmp_path, supersede=True), "t") == [(step, float(step)) for step in range(3000)]

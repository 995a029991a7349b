"""Files of metrics and history from users and other programs."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.ui.cli.inputs import read_history, read_metrics


def lines(tmp_path: Path, *rows: Any) -> str:
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return str(path)


ROW = {"uuid": "r1", "timestamp": "2026-01-02T03:04:05Z", "metric_name": "loss", "metric_value": 1.5}


def test_a_whole_row(tmp_path: Path) -> None:
    (point,) = read_history(lines(tmp_path, {**ROW, "job_status": "failure", "verdict": "skipped"}), "mnist")
    assert (point.run_key, point.metric, point.value, point.test) == ("r1", "loss", 1.5, "mnist")
    assert (point.job_status, point.outcome) == (JobStatus.FAILURE, Outcome.SKIPPED)
    assert point.timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_optional_keys_have_defaults(tmp_path: Path) -> None:
    bare = {"metric_name": "loss", "metric_value": 1.5}
    first, second = read_history(lines(tmp_path, bare, "", {**bare, "job_status": None, "verdict": None}))
    assert (first.job_status, first.outcome) == (JobStatus.SUCCESS, None)
    assert first.timestamp < second.timestamp
    assert first.run_key != second.run_key


def test_a_run_without_metrics_is_read(tmp_path: Path) -> None:
    (point,) = read_history(lines(tmp_path, {"uuid": "r1", "timestamp": 1, "job_status": "missed"}))
    assert (point.metric, point.value, point.job_status) == ("", None, JobStatus.MISSED)


def test_rows_of_one_time_without_uuid_are_one_run(tmp_path: Path) -> None:
    when = {"timestamp": 1_767_225_600, "metric_value": 1}
    first, second = read_history(lines(tmp_path, {**when, "metric_name": "a"}, {**when, "metric_name": "b"}))
    assert first.run_key == second.run_key


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00 UTC",
        "2026-01-01T01:00:00+01:00",
        1_767_225_600,
        1767225600.0,
    ],
)
def test_every_format_of_a_time(tmp_path: Path, time: Any) -> None:
    (point,) = read_history(lines(tmp_path, {**ROW, "timestamp": time}))
    assert point.timestamp == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "is_nan"), [("NaN", True), ('"NaN"', True), ("null", None), ('"-Infinity"', False)]
)
def test_non_finite_values_are_kept(tmp_path: Path, written: str, is_nan: bool | None) -> None:
    (point,) = read_history(lines(tmp_path, f'{{"metric_name": "loss", "metric_value": {written}}}'))
    assert (None if point.value is None else math.isnan(point.value)) == is_nan


BAD_LINES = [
    ("{", "is not JSON"),
    ("[1]", "one JSON object"),
    ({**ROW, "metric_value": "1.5x"}, "metric_value: '1.5x' is not a number"),
    ({**ROW, "metric_value": True}, "True is not a number"),
    ({**ROW, "metric_value": 10**400}, "too large"),
    ({"metric_name": "loss", "timestamp": 1}, "metric_value is missing"),
    ({"metric_value": 1, "timestamp": 1}, "metric_name is missing"),
    ({"loss": 1, "timestamp": 1}, "metric_name is missing"),
    ({**ROW, "metric_name": 3}, "metric_name: 3 should be text"),
    ({**ROW, "timestamp": "yesterday"}, "'yesterday' is not a time"),
    ({**ROW, "timestamp": 1e30}, "is not a time"),
    ({**ROW, "timestamp": False}, "is not a time"),
    ({**ROW, "timestamp": None}, "in every line or in none"),
    ({**ROW, "job_status": "ok"}, "'ok' is not one of success, failure, timeout, missed"),
    ({**ROW, "verdict": ["pass"]}, "is not one of pass, fail"),
    ("[" * 100_000, "is not JSON"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES, ids=[message for _, message in BAD_LINES])
def test_an_error_names_the_bad_line(tmp_path: Path, line: Any, message: str) -> None:
    path = lines(tmp_path, ROW, line)
    with pytest.raises(UnreadableInputError) as caught:
        read_history(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)


def test_an_error_names_the_line_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"metric_name": "a", "metric_value": 1}\n\xff\xfe\n')
    with pytest.raises(UnreadableInputError, match=r"history\.jsonl:2: is not UTF-8"):
        read_history(str(path))


def test_metrics_in_the_format_of_collect(tmp_path: Path) -> None:
    document = {
        "metrics": [
            {"name": "loss_final", "tag": "loss", "strategy": "final", "value": None, "step": 3, "wall_time": 5.0}
        ],
        "missing": {"time_to_accuracy": "the best was 0.9"},
        "warnings": [],
        "files": 1,
    }
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps(document))
    measured = read_metrics(str(path))
    (metric,) = measured.metrics
    assert (metric.name, metric.tag, metric.strategy, metric.wall_time) == ("loss_final", "loss", "final", 5.0)
    assert math.isnan(metric.value)
    assert measured.missing == {"time_to_accuracy": "the best was 0.9"}


def test_metrics_as_an_object_of_names_and_values(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text('{"loss": 1, "acc": null, "metrics": 3}')
    assert [(one.name, one.value == one.value) for one in read_metrics(str(path)).metrics] == [
        ("loss", True),
        ("acc", False),
        ("metrics", True),
    ]


@pytest.mark.parametrize("text", ["", "[]", "3", '{"loss": "high"}', '{"metrics": [3]}', '{"metrics": [{"value": 3}]}'])
def test_a_file_without_metrics_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(text)
    with pytest.raises(UnreadableInputError, match=str(path)):
        read_metrics(str(path))

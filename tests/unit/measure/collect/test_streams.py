"""Metric streams as tags: as our handlers and torch.distributed.elastic write them, and invalid lines."""

import json
import math
from pathlib import Path

import pytest

from ml_metrics import telemetry
from ml_metrics.core.limits import Limits
from ml_metrics.measure import lines
from unit.measure.collect.run_folders import by_name, collected


def line(group: object, name: object, value: object, timestamp: object = 1000.0) -> str:
    return json.dumps({"timestamp": timestamp, "group": group, "name": name, "value": value}) + "\n"


def test_a_stream_is_aggregated_like_any_other_tag(tmp_path: Path) -> None:
    handler = telemetry.JsonLinesMetricHandler(tmp_path)
    for index, value in enumerate([3, 1.5, 2]):
        handler.emit(telemetry.MetricData(1000.0 + index, "my_app", "loss", value))
    handler.flush()
    found = collected(tmp_path, metric_to_aggregation_strategy={"my_app/*": ["min", "final", "count"]})
    metrics = by_name(found)
    assert {name: metric.value for name, metric in metrics.items()} == {
        "my_app/loss_min": 1.5, "my_app/loss_final": 2, "my_app/loss_count": 3,
    }  # fmt: skip
    assert (metrics["my_app/loss_min"].step, metrics["my_app/loss_min"].wall_time) == (1, 1001.0)
    assert (found.warnings, found.files) == ((), 1)


@pytest.mark.parametrize("infinite", ["1e999", "Infinity"])
def test_many_values_of_many_metrics(tmp_path: Path, infinite: str) -> None:
    content = [line(f"g{index % 3}", f"n{index % 7}", index / 3, 1e9 + index) for index in range(500)]
    content.append(f'{{"group": "g0", "name": "n0", "value": {infinite}}}\n')
    (tmp_path / "telemetry.jsonl").write_text("".join(content))
    metrics = by_name(collected(tmp_path, default_aggregation_strategies=["final", "average", "count"]))
    assert len(metrics) == 21 * 3
    assert metrics["g0/n0_count"].value == 25
    assert metrics["g0/n0_average"].value == math.fsum(index / 3 for index in range(0, 500, 21)) / 24
    assert metrics["g0/n0_average"].non_finite == 1
    assert metrics["g2/n2_final"].value == 485 / 3


def test_a_value_that_is_not_a_number_is_left_out_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "telemetry.jsonl").write_text(
        line("app", "flag", True)
        + line("app", "nothing", None)
        + line("app", "text", "0.5")
        + line("app", "list", [1])
        + line("app", "late", 2, "yesterday")
        + line(7, "x", 1)
        + '{"group": "app", "na\n'
        + "[1]\n\n"
        + line("app", "last", 3)
        + '{"timestamp": 1, "group": "app"'
    )
    found = collected(tmp_path)
    metrics = by_name(found)
    assert metrics["app/flag_final"].value == 1
    assert math.isnan(metrics["app/nothing_final"].value)
    assert metrics["app/nothing_final"].non_finite == 1
    assert metrics["app/late_final"].wall_time is None
    assert metrics["app/last_final"].value == 3
    assert set(metrics) == {f"app/{name}_final" for name in ("flag", "nothing", "late", "last")}
    assert found.warnings == (
        "telemetry.jsonl: ends with an incomplete line, which was left out",
        "telemetry.jsonl: 2 lines or values were left out: the value is not a number: text of 3 characters in line 3",
        "telemetry.jsonl: 1 line or value was left out: without group and name: an object of 4 in line 6",
        ("telemetry.jsonl: 1 line or value was left out: not JSON, or nested more than 64 deep: 20 bytes in line 7"),
        "telemetry.jsonl: 1 line or value was left out: not a JSON object: a list of 1 in line 8",
    )


def test_names_that_would_break_a_mail_are_escaped(tmp_path: Path) -> None:
    handler = telemetry.JsonLinesMetricHandler(tmp_path)
    telemetry.configure(handler, group="two\nlines")
    telemetry.get_stream("two\nlines").add_value("größe\x00\ud800", 1)
    handler.flush()
    assert set(by_name(collected(tmp_path))) == {"two\\nlines/größe\\x00\\ud800_final"}


def test_parts_of_a_bucket_and_sub_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "telemetry.20260101T000000000000-a-1.00000.jsonl").write_text(line("app", "x", 1, 1))
    (tmp_path / "telemetry.20260101T000000000000-a-1.00001.jsonl").write_text(line("app", "x", 2, 2))
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "telemetry.jsonl").write_text(line("app", "x", 5, 3))
    assert by_name(collected(tmp_path))["app/x_final"].points == 3
    apart = by_name(collected(tmp_path, use_run_name_prefix=True))
    assert (apart["app/x_final"].value, apart["eval/app/x_final"].value) == (2, 5)


def test_a_line_that_never_ends_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)
    (tmp_path / "telemetry.jsonl").write_text(line("app", "x", 1) + "9" * 5000 + "\n" + line("app", "x", 2))
    found = collected(tmp_path, limits=Limits(json_bytes=256))
    assert by_name(found)["app/x_final"].value == 2
    assert by_name(found)["app/x_final"].points == 2
    left_out = "telemetry.jsonl: 1 line or value was left out: longer than 256 bytes: line 2"
    assert left_out in found.warnings, "how much of it was read is not how long it is"


def test_records_of_torch_elastic_become_metrics(tmp_path: Path) -> None:
    """Its own records are named tuples of four, its values whole numbers, its group `torchelastic`."""
    from collections import namedtuple

    TheirData = namedtuple("MetricData", ["timestamp", "group_name", "name", "value"])  # noqa: PYI024
    handler = telemetry.JsonLinesMetricHandler(tmp_path)
    for index, (name, value) in enumerate(
        [
            ("SimpleElasticAgent._initialize_workers.success", 1),
            ("SimpleElasticAgent._initialize_workers.duration.ms", 1021),
            ("workers.trainer.remaining_restarts", 3),
            ("workers.trainer.healthy", 1),
            ("workers.trainer.remaining_restarts", 3),
            ("workers.trainer.succeeded", 1),
            ("workers.trainer.flakiness", 0),
            ("workers.trainer.run_total", 1),
            ("workers.trainer.run_success_no_retries", 1),
            ("SimpleElasticAgent.run.success", 1),
            ("SimpleElasticAgent.run.duration.ms", 9314),
        ]
    ):
        handler.emit(TheirData(1700000000.0 + index, "torchelastic", name, value))
    handler.flush()
    metrics = by_name(collected(tmp_path))
    assert metrics["torchelastic/workers.trainer.flakiness_final"].value == 0
    assert metrics["torchelastic/workers.trainer.remaining_restarts_final"].points == 2
    assert metrics["torchelastic/SimpleElasticAgent.run.duration.ms_final"].value == 9314

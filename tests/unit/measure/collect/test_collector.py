"""Collecting a run folder: names, patterns, folders, warnings, and sources that fail."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Metric
from ml_metrics.measure import STEP_TIMES, Collected, collect, collect_run
from ml_metrics.measure.readers import tensorboard
from ml_metrics.measure.source import Found, Request
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli
from unit.measure.collect.run_folders import by_name, collected, write


def test_the_default_is_the_final_value_of_every_tag(tmp_path: Path) -> None:
    write(tmp_path, loss=[3, 2, 1], acc=[0.1, 0.5])
    metrics = by_name(collected(tmp_path))
    assert metrics["loss_final"] == Metric("loss_final", 1.0, "loss", "final", 2, 1002.0, 3, better="lower")
    assert set(metrics) == {"loss_final", "acc_final"}


def test_a_tag_has_strategies_of_its_own_by_name_or_pattern(tmp_path: Path) -> None:
    write(tmp_path, loss=[3, 1, 2], acc=[1, 2], acc_top5=[1, 2])
    found = collected(tmp_path, metric_to_aggregation_strategy={"loss": ["min", "max", "min"], "acc*": ["max"]})
    assert [metric.name for metric in found.metrics] == ["acc_max", "acc_top5_max", "loss_min", "loss_max"]
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("named", "value", "strategy"),
    [
        ("loss_max", 3, "max"),
        ("loss_last_n_mean", 2, "last_n_mean"),
        ("step_time_p50", 4, STEP_TIMES),  # those of a goodput log count before
    ],
)
def test_a_metric_that_is_judged_needs_no_strategy_in_the_config(
    named: str, value: float, strategy: str, tmp_path: Path
) -> None:
    write(tmp_path, loss=[3, 2, 1], step_time=[5, 4, 3], lr=[1])
    own = {"loss_p99": 'metric("loss_final") + 1'}
    config = MetricCollectionConfig.model_validate({"tags_to_ignore": ["lr"], "expressions": own})
    not_made = ["loss_p99", "loss_curve", "loss", "los_max", "lr_max", "loss_final", "lo*_max"]
    found = collect_run(config, RunFolder(str(tmp_path)), None, named=[named, *not_made]).metrics
    assert {one.name for one in found} == {"loss_final", "step_time_final", "loss_p99", named}
    assert [one.value for one in found if one.name == "loss_p99"] == [2]
    assert [(one.value, one.strategy) for one in found if one.name == named] == [(value, strategy)]


def test_ignored_and_included_tags(tmp_path: Path) -> None:
    write(tmp_path, loss=[1], acc=[1], lr=[1])
    assert set(by_name(collected(tmp_path, tags_to_ignore=["l*"]))) == {"acc_final"}
    assert set(by_name(collected(tmp_path, include_tags=["l*"], tags_to_ignore=["lr"]))) == {"loss_final"}


def test_a_pattern_that_matches_no_tag_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, accuracy=[1])
    (warning,) = collected(tmp_path, metric_to_aggregation_strategy={"acuracy": ["max"]}).warnings
    assert warning.endswith("'acuracy' matches no tag of this run; did you mean 'accuracy'?")


@pytest.mark.parametrize(
    "own", [{"include_tags": ["los*"]}, {"metric_to_aggregation_strategy": {"loss": ["max"]}}], ids=["pattern", "name"]
)
def test_a_pattern_that_only_the_prefix_keeps_from_matching_is_a_warning_with_the_reason(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    write(tmp_path / "train", loss=[1])
    (warning,) = collected(tmp_path, use_run_name_prefix=True, **own).warnings
    assert warning.endswith(
        "matches no tag of this run: with use_run_name_prefix, tags begin with their folder, for example 'train/loss'"
    )


def test_the_same_tag_in_two_folders_is_merged_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path / "train", loss=[1, 2, 3])
    write(tmp_path / "eval", loss=[5])
    found = collected(tmp_path, default_aggregation_strategies=["average", "final"])
    assert by_name(found)["loss_average"].value == 11 / 4
    assert by_name(found)["loss_final"].value == 3
    assert "several folders (eval, train)" in found.warnings[0]


def event_files(folder: Path) -> None:
    for name, values in (("train", [3, 2]), ("val", [5])):
        write(folder / name, loss=values)


def columns_in_folders(folder: Path) -> None:
    for name in ("train", "val"):
        (folder / name).mkdir()
        (folder / name / "loss.tsv").write_text("step\tloss\n1\t2.5\n2\t2.25\n")


def columns_in_files(folder: Path) -> None:
    for name in ("train", "val"):
        (folder / f"{name}.csv").write_text("step,loss\n1,2.5\n2,2.25\n")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (event_files, "it mixes the points of several folders (train, val), which use_run_name_prefix separates"),
        (
            columns_in_folders,
            "it mixes the points of several folders (train, val), which use_run_name_prefix separates",
        ),
        (columns_in_files, "it mixes the points of 2 files, which file_name_prefix separates"),
    ],
)
@pytest.mark.parametrize("bound", [0, 10])
def test_every_verdict_on_mixed_series_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: Callable[[Path], None], told: str, bound: int
) -> None:
    rule = {"comparison": "less", "success_threshold": {"fixed_value": bound}}
    config = {
        "metric_collection_config": {"sources": {"csv": {"files": ["*.tsv", "*.csv"]}}},
        "regression_test_config": {"metric_success_conditions": {"loss_final": rule}},
    }
    (tmp_path / "a.json").write_text(json.dumps(config))
    folder = tmp_path / "run"
    folder.mkdir()
    written(folder)
    assert cli.main(["collect", str(tmp_path / "a.json"), str(folder), "--json"]) == 0
    (tmp_path / "metrics.json").write_text(capsys.readouterr().out)
    cli.main(["judge", str(tmp_path / "a.json"), "--metrics", str(tmp_path / "metrics.json"), "--json"])
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert verdict["verdict"] == ("pass" if bound else "fail")
    assert verdict["reason"].endswith(told)


def test_the_same_tag_in_two_folders_is_separated_by_the_run_name_prefix(tmp_path: Path) -> None:
    write(tmp_path / "train", loss=[1, 2, 3])
    write(tmp_path / "eval", loss=[5])
    write(tmp_path, loss=[7])
    found = collected(tmp_path, use_run_name_prefix=True)
    assert {name: metric.value for name, metric in by_name(found).items()} == {
        "train/loss_final": 3, "eval/loss_final": 5, "loss_final": 7,
    }  # fmt: skip
    assert found.warnings == ()


def test_restarts_may_supersede(tmp_path: Path) -> None:
    write(tmp_path, loss=[1, 2, 3])
    for path in tmp_path.iterdir():
        path.rename(tmp_path / "events.out.tfevents.1")
    write(tmp_path, loss=[9])
    for restarts, points in (("keep", 4), ("supersede", 1)):
        assert by_name(collected(tmp_path, restarts=restarts))["loss_final"].points == points


def test_an_empty_folder_has_no_metrics_and_a_warning(tmp_path: Path) -> None:
    found = collected(tmp_path / "nothing")
    assert found.metrics == ()
    assert "has no metrics" in found.warnings[0]


def test_a_source_that_fails_does_not_affect_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Request) -> Found:
        raise RuntimeError("boom")

    write(tmp_path, loss=[1])
    monkeypatch.setitem(collect.SOURCES, "broken", broken)
    found = collected(tmp_path)
    assert set(by_name(found)) == {"loss_final"}
    assert found.warnings == ("broken: could not be read: RuntimeError: boom",)


def test_series_of_two_sources_are_never_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(request: Request) -> Found:
        found = tensorboard.read(request)
        return Found(series=found.series, metrics=[Metric("loss_final", 5, "loss", "final"), Metric("x", 1, "x", "x")])

    write(tmp_path, loss=[1, 2])
    monkeypatch.setitem(collect.SOURCES, "other", other)
    found = collected(tmp_path)
    assert by_name(found)["loss_final"].points == 2
    assert by_name(found)["x"].value == 1
    assert len(found.warnings) == 2


def test_texts_become_metadata(tmp_path: Path) -> None:
    from tensorboardX import SummaryWriter

    for folder in (tmp_path, tmp_path / "eval"):
        with SummaryWriter(str(folder)) as writer:
            writer.add_text("config", "lr: 0.1")
    assert collected(tmp_path).metadata == {
        "config/text_summary": "lr: 0.1", "eval/config/text_summary": "lr: 0.1",
    }  # fmt: skip


def test_the_document_has_its_documented_fields_and_can_be_restored(tmp_path: Path) -> None:
    write(tmp_path, loss=[1, math.nan])
    found = collected(tmp_path, default_aggregation_strategies=["final", "max"])
    folder = RunFolder(str(tmp_path))
    folder.write("metrics", found.document())
    document = json.loads((tmp_path / "_ml_metrics" / "metrics.json").read_text())
    assert document["files"] == 1
    assert document["metrics"][0] == {
        "name": "loss_final", "value": None, "tag": "loss", "strategy": "final", "step": 1, "wall_time": 1001.0,
        "points": 2, "non_finite": 1, "first_non_finite": 1, "unit": "", "better": "lower",
    }  # fmt: skip
    again = Collected.from_document(document)
    assert math.isnan(again.metrics[0].value)
    assert again.metrics[1] == found.metrics[1]
    assert (again.warnings, again.files, again.missing) == (found.warnings, 1, {})


@pytest.mark.parametrize("document", [{}, {"metrics": [{}]}, {"metrics": [{"value": 1, "size": 2}]}, {"metrics": 3}])
def test_an_invalid_document_is_an_error(document: dict[str, object]) -> None:
    with pytest.raises(UnreadableInputError, match="Collect the run again"):
        Collected.from_document(document)


@pytest.mark.parametrize("name", ["m.csv", "a/m.csv", "a/b/m.csv"])
@pytest.mark.parametrize("pattern", ["**/*", "**/*.csv", "**/**/m.csv", "**/m.*"])
def test_any_folder_may_be_none(tmp_path: Path, name: str, pattern: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("step,loss\n1,2.5\n")
    found = collected(tmp_path, sources={"csv": {"files": [pattern]}})
    assert (by_name(found)["loss_final"].value, found.warnings) == (2.5, ())


def test_a_pattern_of_files_that_matches_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("step,loss\n1,2.5\n")
    sources = {"csv": {"files": ["*.csv", "results/**/*.csv"]}, "formats": {"stated": {"hud": ["hud/*.json"]}}}
    assert collected(tmp_path, sources=sources).warnings == (
        "sources.csv.files: 'results/**/*.csv' matches no file of this run",
        "sources.formats.stated.hud: 'hud/*.json' matches no file of this run",
    )

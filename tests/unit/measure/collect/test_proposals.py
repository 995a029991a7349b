"""What no source reads is shown with the configuration that reads it, and that configuration really does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.yaml import parse_yaml
from ml_metrics.core.limits import Limits
from ml_metrics.measure import Explained, collect_run, explain_file
from ml_metrics.store.run_folder import RunFolder

SAMPLES = Path(__file__).parent / "formats/samples"
FOREIGN = Path(os.environ.get("ML_METRICS_SAMPLES", "/nowhere"))
"""A folder of more files of other programs, each of which may be of any format or none."""


def explained(folder: Path) -> list[Explained]:
    place = RunFolder(str(folder))
    return [explain_file(file, place, MetricCollectionConfig(), Limits()) for file in place.files()]


def pasted(one: Explained, folder: Path) -> dict[str, float]:
    """The metrics that the printed lines give."""
    content = parse_yaml("\n".join(one.lines()), "t.yaml")[0]
    config = MetricCollectionConfig.model_validate(content["metric_collection_config"])
    found = collect_run(config, RunFolder(str(folder)), None)
    conditions = content["regression_test_config"]["metric_success_conditions"]
    assert conditions
    assert conditions.keys() <= {metric.name for metric in found.metrics}
    return {metric.name: metric.value for metric in found.metrics}


def proposed(folder: Path, name: str, content: str) -> dict[str, float]:
    (folder / name).write_text(content)
    (one,) = explained(folder)
    assert one.proposed
    assert not one.source
    given = pasted(one, folder)
    assert given == {metric.name: pytest.approx(metric.value, nan_ok=True) for metric in one.metrics}
    return given


@pytest.mark.parametrize(
    ("name", "content", "metrics"),
    [
        ("a.json", {"eval": {"accuracy": 0.9}, "seed": 7, "time": 1.79e9}, {"eval/accuracy": 0.9}),
        ("a.json", {"runs": [{"name": "x", "p99": 1}, {"name": "y", "p99": 2}]}, {"x/p99": 1, "y/p99": 2}),
        ("a.json", [{"name": "x", "p99": 1}], {"x/p99": 1}),
        (
            "a.json",
            [{"model": "m", "batch": 1, "speed": 5}, {"model": "m", "batch": 2, "speed": 6}],
            {"m/1/speed": 5, "m/2/speed": 6, "m/1/batch": 1, "m/2/batch": 2},
        ),
        ("a.json", [{"v": 1}, {"v": 2}], {"1/v": 2, "0/v": 1}),
        ("a.json", {"log": [{"step": step, "loss": 5 - step} for step in range(4)]}, {"loss_final": 2}),
        ("a.json", {key: {"p99": 2} for key in "xyz"}, {"x/p99": 2, "y/p99": 2, "z/p99": 2}),
        ("a.json", {"a b": {"c{d}": 1}}, {"a b/c(d)": 1}),
        ("a.txt", '{"it": 1, "loss": 3}\n{"it": 2, "loss": 2}\n{"it": 3, "loss": 1}\n', {"loss_final": 1}),
        ("a.csv", "model,speed\nx,5\ny,6\n", {"x/speed": 5, "y/speed": 6}),
        ("a.yaml", "accuracy: 0.5\n", {"accuracy": 0.5}),
        ("a.toml", "[a]\nb = 0.5\n", {"a/b": 0.5}),
        ("a.xml", '<r><t name="x" v="1"/><t name="y" v="2"/></r>', {"x/v": 1, "y/v": 2}),
        ("a.txt", "Threads: 4\n  events per s:  9.5\n", {"log/threads_final": 4, "log/events_per_s_final": 9.5}),
    ],
)
def test_the_proposed_lines_read_a_file(name: str, content: Any, metrics: dict[str, float], tmp_path: Path) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    assert proposed(tmp_path, name, text) == metrics


def test_a_file_of_a_known_format_under_another_name_is_stated(tmp_path: Path) -> None:
    given = proposed(tmp_path, "startup.out1", (SAMPLES / "hyperfine/two_commands.json").read_text())
    assert given["sleep 0.01/time_median"] > 0
    (one,) = explained(tmp_path)
    assert one.proposed == {"formats": {"stated": {"hyperfine": ["startup.out1"]}}}


def test_names_that_yaml_reads_otherwise_are_quoted(tmp_path: Path) -> None:
    keys = ["yes", "null", "1e5", "a: b", "#", "'", '"', "\\", "é", "😀", "\u2028", "\x7f", "a\nb", "{", "-", ""]
    given = proposed(tmp_path, "a.json", json.dumps({"x": dict.fromkeys(keys, 1.5)}))
    assert set(given.values()) == {1.5}


def test_a_file_without_numbers_has_no_proposal(tmp_path: Path) -> None:
    for name, content in {"a.txt": "hello\n", "b.json": '{"a": "b"}', "c.bin": "\0 a: 1\n", "d.json": "{"}.items():
        (tmp_path / name).write_text(content)
    assert [(one.source, one.proposed, one.metrics) for one in explained(tmp_path)] == [("", {}, ())] * 4


values = st.recursive(
    st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4) | st.none() | st.booleans(),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(max_size=4), one, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values)
def test_any_document_is_read_by_what_is_proposed_for_it(tmp_path: Path, document: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document))
    (one,) = explained(tmp_path)
    if one.proposed:
        given = pasted(one, tmp_path)
        assert given.keys() == {metric.name for metric in one.metrics}


@pytest.mark.parametrize(
    "folder",
    [one for root in (SAMPLES, FOREIGN) if root.is_dir() for one in sorted(root.iterdir())],
    ids=lambda one: one.name,
)
def test_every_sample_is_read_or_told_how(folder: Path) -> None:
    if folder.is_file():
        return
    for one in explained(folder):
        assert one.metrics or one.warnings or not one.proposed
        if one.proposed:
            assert pasted(one, folder)

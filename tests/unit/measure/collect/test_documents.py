"""Documents of any program are read by paths."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.core.limits import Limits
from ml_metrics.measure import Collected
from unit.measure.collect.run_folders import collected, values

RESULT = {"eval": {"accuracy": 0.91}, "runs": [{"name": "load", "p99": 3.5}, {"name": "idle", "p99": 1.5}]}


def read(folder: Path, *documents: dict[str, Any], **config: Any) -> Collected:
    return collected(folder, sources={"documents": documents}, **config)


def test_paths_name_metrics_with_unit_and_direction(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results/a.json").write_text(json.dumps(RESULT, indent=2))
    latency = {"path": "$.runs[*].p99", "unit": "ms", "better": "lower"}
    metrics = {"accuracy": "$.eval.accuracy", "latency_{name}": latency}
    found = read(tmp_path, {"files": ["results/*.json"], "metrics": metrics, "better": "higher"})
    assert values(found) == {"accuracy": 0.91, "latency_load": 3.5, "latency_idle": 1.5}
    assert {(one.name, one.unit, one.better) for one in found.metrics} == {
        ("accuracy", "", "higher"),
        ("latency_load", "ms", "lower"),
        ("latency_idle", "ms", "lower"),
    }
    assert (found.files, found.warnings) == (1, ())


def test_without_paths_the_numbers_outside_of_lists_count_and_texts_describe_the_run(tmp_path: Path) -> None:
    (tmp_path / "all.json").write_text(
        '{"accuracy": 0.9, "eval": {"loss": 2, "ok": true}, "model": "b", "x": [1, 2, 6]}'
    )
    found = read(tmp_path, {"files": ["all.json"]})
    assert values(found) == {"accuracy": 0.9, "eval/loss": 2, "eval/ok": 1, "x": 2}
    assert found.metadata == {"model": "b"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.txt", '{"step": 1, "loss": 3}\n{"step": 2, "loss": 2.5}\n'),
        ("m.csv", "step;loss\n1;3\n2;2.5\n"),
        ("m.tsv", "step\tloss\n1\t3.0\n2\t2.50\n"),
        ("m.csv", "# by train.sh\nstep,loss\n1,3\n2,2.5\n"),
        ("m.csv", "# step,loss\n1,3\n2,2.5\n"),
        ("m.json", '[{"step": 1, "loss": 3},\n {"step": 2, "loss": 2.5}]'),
        ("m.yaml", "- {step: 1, loss: 3}\n- {step: 2, loss: 2.5}\n"),
    ],
)
def test_with_a_step_values_are_points(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    path = "$[*].loss" if name in {"m.json", "m.yaml"} else "$.loss"
    found = read(tmp_path, {"files": ["m.*"], "metrics": {"loss": path}, "step": "step"})
    (metric,) = found.metrics
    assert (metric.name, metric.value, metric.step, metric.points) == ("loss_final", 2.5, 2, 2)


def test_a_list_of_numbers_is_numbered_or_its_median_counts(tmp_path: Path) -> None:
    (tmp_path / "evals.json").write_text('{"train": {"rmse": [5, 1, 3]}}')
    metrics = {"{1}/rmse": "$.*.rmse"}
    assert values(read(tmp_path, {"files": ["*.json"], "metrics": metrics})) == {"train/rmse": 3}
    found = read(tmp_path, {"files": ["*.json"], "metrics": metrics, "step": "index"})
    assert [(one.name, one.value, one.step) for one in found.metrics] == [("train/rmse_final", 3, 2)]


def test_toml_and_junit(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("[bench]\nspeed = 2.5\n")
    cases = '<testcase classname="c" name="a" time="0.5"/><testcase classname="c" name="b" time="1,000.5"/>'
    (tmp_path / "r.xml").write_text(f'<?xml version="1.0"?><testsuite tests="2">{cases}</testsuite>')
    times = {"{classname}.{name}": "$..testcase[*].time", "tests": "$.testsuite.tests"}
    found = read(tmp_path, {"files": ["*.toml"]}, {"files": ["*.xml"], "metrics": times})
    assert values(found) == {"bench/speed": 2.5, "c.a": 0.5, "c.b": 1000.5, "tests": 2}


def test_cells_state_their_unit(tmp_path: Path) -> None:
    (tmp_path / "gpu.csv").write_text("name, memory, load\na, 1129 MiB, 5 %\na, 1 GiB, 7 %\na, 2 W, 9 %\n")
    found = read(tmp_path, {"files": ["*.csv"], "metrics": {"memory": "$.memory", "load": "$.load"}})
    assert [(one.name, one.value, one.unit) for one in found.metrics] == [
        ("memory", (1129 + 1024) / 2, "MiB"),
        ("load", 7, "%"),
    ]
    (warning,) = found.warnings
    assert "'memory' has another unit than the first value, MiB: text of 3 characters in line 4" in warning


def test_a_file_that_documents_names_belongs_to_no_other_source(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step": 1, "loss": 3}\n')
    (tmp_path / "b.json").write_text('[{"name": "a", "unit": "s", "value": 3}]')
    entry = {"files": ["m.jsonl", "b.json"], "metrics": {"x": "$.loss", "{name}": "$[*].value"}, "unit": "{unit}"}
    assert values(read(tmp_path, entry)) == {"x": 3, "a": 3}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"loss": "high", "rows": [{"v": 1}]}')
    metrics = {"accuracy": "$.eval.accuracy", "loss": "$.loss", "{name}": "$.rows[*].v", "rows": "$.rows"}
    found = read(tmp_path, {"files": ["a.json"], "metrics": metrics}, {"files": ["b.json"]})
    texts = "\n".join(found.warnings)
    assert "a.json: has nothing at $.eval.accuracy, the path of 'accuracy'" in texts
    assert "'loss' is not a number" in texts
    assert "'{name}' names a field that is not beside the value" in texts
    assert "'rows' is a list: write the path of a value in it" in texts
    assert "sources.documents: 'b.json' matches no file of this run" in texts
    assert "--explain` shows what would read them" in texts


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b'{"a": 1', "is not whole JSON"),
        ("a.json", b'{"a": 1, "a": 2}', "twice in one object"),
        ("a.yaml", b"a: [1", "is not YAML"),
        ("a.toml", b"a = ", "is not TOML"),
        ("a.xml", b"<a>", "is not XML"),
        ("a.xml", b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "declares a document type"),
        ("a.xml", b"<a>" * 100 + b"</a>" * 100, "is nested too deep"),
        ("a.csv", b'a,b\n"' + b"x" * 200_000, "is no table"),
        ("a.csv", b"a\rb,c\nd,e\n", "is no table"),
        ("a.yaml", b"a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n" + b"b: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n" * 1, ""),
    ],
)
def test_a_document_that_cannot_be_read_is_named_and_the_others_count(
    name: str, content: bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.json").write_text('{"accuracy": 0.9}')
    found = read(tmp_path, {"files": ["a.*", "good.json"]})
    assert values(found)["accuracy"] == 0.9
    assert all(name in one for one in found.warnings)
    assert why in "\n".join(found.warnings)


def test_compressed_lines_and_limits(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"v": value}) + "\n" for value in range(1_000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    entry = {"files": ["*.gz"], "metrics": {"v": "$.v"}}
    assert values(read(tmp_path, entry)) == {"v": 499.5}
    found = collected(tmp_path, limits=Limits(points=10), sources={"documents": [entry]})
    assert any("990 points were left out" in one for one in found.warnings)


def test_files_of_two_folders_are_told_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "r.json").write_text(json.dumps({"v": ord(folder)}))
    assert values(read(tmp_path, {"files": ["*/r.json"]}, use_run_name_prefix=True)) == {"a/v": 97, "b/v": 98}


WHOLE = {
    "json": b'{"a": [{"name": "x", "v": 1.5}, {"name": "y", "v": "2 ms"}], "b": {"c": null}}',
    "json_lines": b'{"step": 1, "v": 1.5}\n{"step": 2, "v": [1, 2]}\n',
    "yaml": b"a: &x\n  - {name: x, v: 1.5}\nb: *x\n",
    "toml": b'[[a]]\nname = "x"\nv = 1.5\n',
    "csv": b'name,v\nx,1.5\n"y z",2 ms\n',
    "xml": b'<r><a name="x" v="1.5">2</a><a/></r>',
}


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_damaged_documents_are_read_or_reported_and_stop_no_other(
    tmp_path: Path, kind: str, data: st.DataObject
) -> None:
    content = bytearray(WHOLE[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(len(content) - 1, 0)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    (tmp_path / "a.bin").write_bytes(bytes(content))
    (tmp_path / "good.json").write_text('{"accuracy": 0.9}')
    metrics = {"{name}/{1}": "$..a[*].v", "v": "$.v", "": "$"}
    entries = [{"files": ["a.bin"], "metrics": metrics, "format": kind, "step": step} for step in ("", "index", "step")]
    found = read(tmp_path, *entries, {"files": ["good.json"]})
    assert values(found)["accuracy"] == 0.9
    assert not [one for one in found.warnings if "could not be read" in one]

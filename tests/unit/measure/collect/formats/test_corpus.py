"""Every file of every format is recognised as what it is, and as nothing else; damaged ones never stop a run."""

import json
import random
import shutil
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import FormatName
from ml_metrics.core.limits import Allowance, Limits
from ml_metrics.measure import Collected
from ml_metrics.measure.readers import registry
from ml_metrics.measure.readers.format import Beginning
from ml_metrics.measure.readers.registry import BY_NAME, FORMATS, read_files, recognise
from ml_metrics.store import storage
from unit.measure.collect.formats.sample_files import BESIDE, SAMPLES, InMemory, own_samples, samples_beside
from unit.measure.collect.run_folders import by_name, collected

OTHER_FILES = {
    "config.json": '{"name": "x", "results": [1, 2], "benchmarks": {"value": 3}}',
    "package.json": '{"name": "x", "version": "1.0", "scripts": {"test": {"value": "a"}}}',
    "index.json": '{"metadata": {"total_size": 5}, "weight_map": {"a": "b"}}',
    "list.json": '[{"name": "a", "value": 1}]',
    "metrics.jsonl": '{"step": 1, "loss": 2.5}\n',
    "results.jsonl": '{"metrics": {"throughput": 100.0}, "dimensions": {"batch": 64}}\n',
    "perfzero_summary.json": '{"benchmark_result": {"metrics": [{"name": "a", "value": 1}], "name": "x"}}',
    "train.log": "2026-01-01 step 1 loss 2.5\n# a comment\nDLL load failed\n",
    "README.txt": "# TYPES of metrics\n",
    "metrics/notes": "17 lines of text\n",
    "empty.json": "",
    "null.json": "null",
    "number.json": "5",
    "empty_list.json": "[]",
    "empty_object.json": "{}",
}


def claiming(path: Path, name: str = "") -> list[str]:
    file = storage.File(str(path), name or path.name, path.stat().st_size)
    return [one.name for one in FORMATS if one.claims(Beginning.of(file, Allowance()))]


def in_folder(path: Path) -> storage.File:
    return storage.File(str(path), path.relative_to(SAMPLES).as_posix(), path.stat().st_size)


@pytest.mark.parametrize(("name", "path"), own_samples(), ids=lambda one: str(getattr(one, "name", one)))
def test_a_sample_is_of_its_format_alone(name: str, path: Path) -> None:
    assert claiming(path, path.relative_to(SAMPLES).as_posix()) == [name]
    assert recognise(in_folder(path), Allowance()) == (BY_NAME[name], "")
    found = read_files(BY_NAME[name], [in_folder(path)], Allowance())
    assert found.series or found.sweeps


def test_each_format_has_a_sample_and_a_name_for_test_files() -> None:
    known = set(BY_NAME)
    assert {name for name, _ in own_samples()} == known, f"each format of FORMATS has a folder of samples in {SAMPLES}"
    assert set(get_args(FormatName)) == known, (
        "FormatName in config/collection.py has the name of each format of FORMATS"
    )


@pytest.mark.skipif(not samples_beside(), reason=f"NOT CHECKED: real files of other authors, which {BESIDE} would hold")
def test_files_of_other_authors_are_of_their_format_alone() -> None:
    wrong = {
        path.name: found for name, path in samples_beside() if (found := claiming(path)) != ([name] if name else [])
    }
    assert not wrong


@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files_of_a_run_are_of_no_format(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(OTHER_FILES[name])
    assert claiming(path, name) == []


def test_a_file_that_looks_like_two_formats_is_an_error_that_names_both(tmp_path: Path) -> None:
    parts = [(SAMPLES / "mllog/success.txt").read_text(), (SAMPLES / "dllogger/stream.json").read_text()]
    (tmp_path / "both.log").write_text("".join(parts))
    found = collected(tmp_path)
    assert not found.metrics
    (warning,) = [one for one in found.warnings if "both.log" in one]
    assert "mllog and dllogger" in warning
    assert "sources.formats.stated: {mllog: [both.log]}" in warning
    chosen = collected(tmp_path, sources={"formats": {"stated": {"mllog": ["both.log"]}}})
    assert "eval_accuracy_final" in {metric.name for metric in chosen.metrics}
    assert not any(metric.name.startswith("train.loss") for metric in chosen.metrics)


def names(found: Collected) -> set[str]:
    return {metric.name for metric in found.metrics}


def test_a_file_that_the_test_file_gives_to_another_source_stays_with_it(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "vllm-serve/appended.json", tmp_path / "results.json")
    assert "request_rate=1/output_throughput_median" in names(collected(tmp_path))
    lines = collected(tmp_path, sources={"json_lines": {"files": ["*.json"]}})
    assert "output_throughput_final" in names(lines)
    assert not names(collected(tmp_path, sources={"formats": {"enabled": False}}))


def test_a_file_that_another_source_reads_today_keeps_its_metrics_until_its_format_is_stated(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "vllm-serve/appended.json", tmp_path / "results.jsonl")
    assert "output_throughput_final" in names(collected(tmp_path))
    stated = collected(tmp_path, sources={"formats": {"stated": {"vllm-serve": ["*.jsonl"]}}})
    assert "request_rate=1/output_throughput_median" in names(stated)
    assert "output_throughput_final" not in names(stated)


def damaged(data: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    kind = chance.randrange(6)
    if kind == 0:
        return data[: chance.randrange(len(data))]
    if kind == 1:
        at = chance.randrange(len(data))
        return data[:at] + bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9))) + data[at + 1 :]
    if kind == 2:
        return data.replace(b"[", b"{", 1)
    numbers = [b"NaN", b"1e999", b'"text"', b"null", b"[]", b"{}", b"true", b"-Infinity", b"1" * 400]
    digits = [at for at in range(len(data)) if data[at : at + 1].isdigit()]
    at = chance.choice(digits) if digits else 0
    end = at
    while data[end : end + 1] in b"0123456789.e+-" and end < len(data):
        end += 1
    return data[:at] + chance.choice(numbers) + data[end:]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(own_samples()), st.integers(0, 2**32))
def test_a_damaged_file_is_read_or_reported_and_of_no_other_format(sample: tuple[str, Path], seed: int) -> None:
    name, path = sample
    data = damaged(path.read_bytes(), seed)
    file = InMemory(data, path.relative_to(SAMPLES).as_posix())
    known, _ = recognise(file, Allowance())
    assert known is None or known.name == name
    found = read_files(BY_NAME[name], [file], Allowance())
    assert found.series or found.sweeps or found.warnings or found.metadata or len(data) < 100 or known is None


def test_a_folder_of_very_many_texts_is_not_opened_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_FILES_OPENED", 3)
    for number in range(5):
        shutil.copy(SAMPLES / "hyperfine/two_commands.json", tmp_path / f"{number}.json")
    found = collected(tmp_path)
    assert by_name(found)["sleep 0.01/time_median"].points == 9
    assert any("2 files were not looked at" in one for one in found.warnings)


def test_results_whose_setting_is_no_number_are_reported() -> None:
    text = (SAMPLES / "aiperf/concurrency1/profile_export_aiperf.json").read_text()
    document = json.loads(text)
    document["input_config"]["loadgen"] = {"concurrency": None}
    found = read_files(BY_NAME["aiperf"], [InMemory(json.dumps(document).encode(), "a.json")], Allowance())
    assert not found.sweeps
    (warning,) = found.warnings
    assert warning.startswith("a.json: no curve of aiperf: there is no number for concurrency")


def test_a_key_that_hides_another_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bmf.json").write_text('{"a": {"latency": {"value": 1}}, "a": {"latency": {"value": 2}}}')
    found = collected(tmp_path)
    assert not found.metrics
    assert recognise(InMemory((tmp_path / "bmf.json").read_bytes(), "bmf.json"), Allowance())[0] is None


def test_a_document_beyond_the_limit_is_reported_with_the_setting(tmp_path: Path) -> None:
    content = json.loads((SAMPLES / "pytest-benchmark/with_rounds.json").read_text())
    content["benchmarks"][0]["stats"]["data"] = [1.0] * 50_000
    (tmp_path / "big.json").write_text(json.dumps(content))
    found = collected(tmp_path, limits=Limits(json_bytes=100_000))
    assert not found.metrics
    assert any("pytest-benchmark" in one and "max_json_bytes" in one for one in found.warnings)


def test_lines_beyond_the_limit_of_a_document_are_read_in_blocks(tmp_path: Path) -> None:
    line = json.dumps({"metric": {"name": "tps", "benchmark_values": [1.0]}}) + "\n"
    (tmp_path / "hud.json").write_text(line * 40_000)
    found = collected(tmp_path, limits=Limits(json_bytes=100_000))
    assert [(one.name, one.points) for one in found.metrics] == [("tps_median", 40_000)]


NAMES = "".join(f'"z{number}": {{"latency": {{"value": 1}}}}, ' for number in range(300))
HOSTILE = {
    "deep.json": '{"a": {"b": {"value": ' + "[" * 100_000 + "]" * 100_000 + "}}}",
    "names.json": "{" + NAMES + '"last": {"latency": {"value": 1}}}',
    "long_name.json": '{"' + "n" * 50_000 + '": {"latency": {"value": 1}}}',
    "line.log": ":::MLLOG " + '{"key": "time_ms", "value": ' + "9" * 200_000 + "}\n",
    "deep.log": ':::MLLOG {"key": "a", "time_ms": 1, "value": ' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}\n",
    "labels.om": "# TYPE a gauge\na{"
    + ",".join(f'l{number}="x"' for number in range(5_000))
    + "} 1\na{"
    + "\\" * 9_999
    + "\n",
    "words.txt": "DLL 2026-01-01 00:00:00 - " + "a " * 50_000 + ": 1 \n",
    "steps.txt": f'DLLL {{"timestamp": "1", "type": "LOG", "step": [{"9" * 400}], "data": {{"a": 1}}}}\n',
    "record.wandb": ":W&B\x01\x02\x00" + "\x7f" * 70_000,
    "encoding.xml": '<?xml version="1.0" encoding="utf-1e999"?><testsuite><testcase time="1"/></testsuite>',
    "metrics/long": "1700000000000 1 1 " + "x" * 100_000 + "\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_takes_no_more_than_the_limits_and_stops_no_other(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(HOSTILE[name], encoding="latin-1")
    shutil.copy(SAMPLES / "hyperfine/two_commands.json", tmp_path / "a.json")
    found = collected(tmp_path, limits=Limits(metrics=50, tags=50, json_bytes=100_000))
    assert "sleep 0.01/time_median" in names(found)
    assert len(found.metrics) <= 50
    assert all(len(one) <= 2_100 and one.isprintable() for one in found.warnings)

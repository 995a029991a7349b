"""`ml-metrics stragglers`: traces of operations, and goodput logs of several hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from unit.measure.efficiency.traces import Job
from unit.ui.cli.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A job of 2 stages and 2 ranks, of which rank 1 of stage 0 takes twice as long."""
    job = Job(2, 2, 4, 3, lambda _step, stage, rank, *_: 1.0 if (stage, rank) == (0, 1) else 0.5)
    return job.write(tmp_path / "trace.parquet")


def test_a_trace(trace: str, tmp_path: Path, ml: Shell) -> None:
    (tmp_path / "meta.yaml").write_text("trial_name: SW\ndp_size: 2\npp_size: 2\ndsp_size: 1\n")
    found = ml.json("stragglers", trace, "--meta", str(tmp_path / "meta.yaml"))
    assert (found["job"], found["workers"], found["slowest_workers"]) == ("SW", 4, [1])
    assert found["causes"] == ["slow workers: rank 1"]
    assert "cause: slow workers: rank 1" in ml("stragglers", trace)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ("dp_size: 3", "dp_size is 3, but the trace has 2"),
        ("pp_size: 0", "pp_size should be a whole number"),
        ("tp_size: true", "tp_size should be a whole number"),
        ("[1]", "should be a mapping"),
        ("a: [", "meta.yaml"),
    ],
)
def test_a_wrong_meta(trace: str, tmp_path: Path, ml: Shell, meta: str, words: str) -> None:
    (tmp_path / "meta.yaml").write_text(meta)
    assert words in ml("stragglers", trace, "--meta", str(tmp_path / "meta.yaml"), code=2)


def write_log(folder: Path, paces: dict[str, float], steps: int = 40) -> str:
    for index, (host, pace) in enumerate(paces.items()):
        lines = [{"job_name": "j", "host": host, "pid": 1, "job_start_time": 100.0}]
        lines += [
            {"job_name": "j", "host": host, "pid": 1, "step_count": step, "step_start_time": 100.0 + step * pace}
            for step in range(steps)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"goodput.20260101T000000-{host}-{index}.jsonl").write_text(text)
    return str(folder)


def test_a_goodput_log(tmp_path: Path, ml: Shell) -> None:
    found = ml.json("stragglers", write_log(tmp_path, {"a": 1.0, "b": 1.0, "c": 1.5}))
    assert found["slow_host"] == "c"
    assert found["slowdown"] == pytest.approx(1.5)


def test_a_log_of_one_host(tmp_path: Path, ml: Shell) -> None:
    assert "nothing can be compared" in ml("stragglers", write_log(tmp_path, {"a": 1.0}), code=1)


def test_meta_of_a_log(tmp_path: Path, ml: Shell) -> None:
    assert "is for traces" in ml("stragglers", str(tmp_path), "--meta", "m.yaml", code=2)

"""The examples of docs/sources.md: ours run here, and those of frameworks are lines of programs that are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ml_metrics
from ml_metrics.measure.goodput import measure
from ml_metrics_telemetry import JsonLinesMetricHandler, NullMetricHandler, configure

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "sources.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = PROJECT / "tests" / "integrations" / "programs"
FRAMEWORKS = {
    "keras": ("keras_fit.py", "TrainingCallback"),
    "lightning": ("lightning_fit.py", "TrainingCallback"),
    "huggingface": ("huggingface_trainer.py", "TrainingCallback"),
    "jax": ("jax_flax.py", "recorded"),
    "maxtext": ("maxtext_loop.py", "from_config"),
}
SHOWN = ("keras", "jax")


def block_with(text: str) -> str:
    (found,) = [block for block in BLOCKS if text in block]
    return found


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ML_METRICS_RUN_DIR", str(tmp_path))
    return tmp_path


def test_the_loop_runs_and_is_measured(run_folder: Path) -> None:
    exec(block_with("training.steps(batches)"), {})
    report = measure(str(run_folder))
    assert (report.last_step, report.ended, report.warnings) == (2, True, ())
    assert set(report.custom_badput_seconds) == {"EVAL"}
    assert [series.tag for series in ml_metrics.read_events(run_folder).series] == ["loss"]


def test_the_stream_runs(run_folder: Path) -> None:
    namespace: dict[str, object] = {"__name__": "program"}
    exec(block_with("@prof("), namespace)
    namespace["load_batch"]()  # type: ignore[operator]
    configure(NullMetricHandler())
    JsonLinesMetricHandler().flush()
    names = re.findall(r'"name": "([^"]+)"', (run_folder / "telemetry.jsonl").read_text())
    assert names == ["queue_length", "program.load_batch.success", "program.load_batch.duration.ms"]


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_each_line_for_a_framework_is_a_line_of_a_program_that_is_run(module: str) -> None:
    program, name = FRAMEWORKS[module]
    text = (PROGRAMS / program).read_text().replace("TrainingCallback(training)", "TrainingCallback()")
    run = {line.strip() for line in text.splitlines()}
    added = f"from ml_metrics_telemetry.{module} import {name}"
    shown = block_with(added) if module in SHOWN else added
    assert {line.strip() for line in shown.splitlines()} - run - {"", "..."} == set()
    assert re.search(
        rf"^\| \[[^]]+\]\(\.\./tests/integrations/programs/{program}\) \| `{module}\.{name}` \|", PAGE, re.MULTILINE
    )

"""The command `ml-metrics experiments`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.core.model import Run
from ml_metrics.judge.compare import Plan
from ml_metrics.pipeline.experiments import COMPARE, open_journal
from ml_metrics.pipeline.experiments.comparison import Comparison
from unit.ui.cli.shell import Shell


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", f"{tmp_path}/runs")
    return f"{tmp_path}/runs"


def test_experiments_are_listed_with_their_answers(root: str, ml: Shell) -> None:
    assert ml("experiments") == f"no comparison or search has begun in {root}\n"
    keys = [Run(COMPARE, COMPARE, run, "local").key for run in ("one", "two")]
    comparison = Comparison("t", "image", "app:1", "app:\x1b[31m2", Plan(2.0, 60))
    for key in keys:
        open_journal(root, key, comparison.question())
    open_journal(root, keys[0]).write(comparison.result([]))
    text = ml("experiments")
    assert "comparison of t: app:1 and app:" in text
    assert "\x1b" not in text
    assert "\n  no answer yet: 0 of at most 60 runs have ended\n" in text
    assert "\n  nothing was measured: " in text
    assert len(ml("experiments", "--limit", "1").splitlines()) == 2
    found = ml.json("experiments")["experiments"]
    assert {one["key"]: one["ended"] for one in found} == {keys[0]: True, keys[1]: False}

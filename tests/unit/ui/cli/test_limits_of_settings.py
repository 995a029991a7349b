"""Commands read a run within the limits of the settings, as the tasks do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.ui.cli import main


@pytest.mark.parametrize("command", ["collect CONFIG RUN --json", "validate CONFIG --with-run RUN --json"])
def test_a_command_stops_where_a_task_stops(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, run = tmp_path / "c.yaml", tmp_path / "run"
    config.write_text("metric_collection_config: {default_aggregation_strategies: [final]}\n")
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step": 1, "a": 1, "b": 2, "c": 3}\n')
    argv = command.replace("CONFIG", str(config)).replace("RUN", str(run)).split()
    assert main(argv) == 0
    assert "c_final" in capsys.readouterr().out
    monkeypatch.setenv("AIRFLOW__ML_METRICS__MAX_METRICS", "1")
    assert main(argv) == 0
    assert "c_final" not in capsys.readouterr().out

"""The command `ml-metrics cluster`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ml_metrics.ui.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def test_start_status_and_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path / "cluster")]
    assert main(["cluster", "status", *root]) == 1
    assert "not running" in capsys.readouterr().out
    assert main(["cluster", "start", *root]) == 0
    assert f"export KUBECONFIG={tmp_path}/cluster/kubeconfig" in capsys.readouterr().out
    assert main(["cluster", "status", "--json", *root]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["running"]
    assert status["url"].startswith("https://127.0.0.1:")
    assert main(["cluster", "start", *root]) == 0
    assert "already" in capsys.readouterr().out
    assert main(["cluster", "kubeconfig", *root]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/cluster/kubeconfig\n"
    assert main(["cluster", "stop", "--json", *root]) == 0
    assert json.loads(capsys.readouterr().out) == {"root": str(tmp_path / "cluster"), "stopped": True}
    assert main(["cluster", "status", *root]) == 1
    assert main(["cluster", "stop", *root]) == 0
    assert "was not running" in capsys.readouterr().out


def test_the_root_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__LOCAL_CLUSTER_ROOT", str(tmp_path / "here"))
    assert main(["cluster", "status"]) == 1
    assert f"{tmp_path}/here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["start", "--cpu", "many"], "argument --cpu: 'many' is not a quantity"),
        (["start", "--resource", "gpu"], "argument --resource: 'gpu' is not of the form NAME=VALUE"),
        (["run", "--port", "99999"], "argument --port: '99999' is not a port"),
        (["start", "--idle-minutes", "-1"], "argument --idle-minutes: '-1' is not a duration"),
        (["start", "--max-pods", "-3"], "argument --max-pods: '-3' is not a number of pods"),
        (["fly"], "argument verb: invalid choice: 'fly'"),
        ([], "the following arguments are required: verb"),
    ],
)
def test_invalid_usage_is_rejected(argv: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", *argv]) == 2
    assert f"ml-metrics cluster: error: {reason}" in capsys.readouterr().err


def test_run_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ml_metrics.ui.cli", "cluster", "run", "--root", str(tmp_path / "cluster")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert "export KUBECONFIG=" in server.stdout.readline()
            assert "ready" in server.stdout.readline()
            second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert second.returncode == 2
            assert "another local cluster is serving this folder" in second.stderr
            os.kill(server.pid, signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()

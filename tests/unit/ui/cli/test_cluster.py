"""The command `ml-metrics cluster`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ml_metrics.ui.cli import main
from unit.ui.cli.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path


def test_start_status_and_stop(tmp_path: Path, ml: Shell) -> None:
    root = ["--root", str(tmp_path / "cluster")]
    assert "not running" in ml("cluster", "status", *root, code=1)
    assert f"export KUBECONFIG={tmp_path}/cluster/kubeconfig" in ml("cluster", "start", *root)
    status = ml.json("cluster", "status", *root)
    assert status["running"]
    assert status["url"].startswith("https://127.0.0.1:")
    assert "already" in ml("cluster", "start", *root)
    assert ml("cluster", "kubeconfig", *root) == f"{tmp_path}/cluster/kubeconfig\n"
    assert ml.json("cluster", "stop", *root) == {"root": str(tmp_path / "cluster"), "stopped": True}
    assert main(["cluster", "status", *root]) == 1
    assert "was not running" in ml("cluster", "stop", *root)


def test_the_root_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__LOCAL_CLUSTER_ROOT", str(tmp_path / "here"))
    assert f"{tmp_path}/here" in ml("cluster", "status", code=1)


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
def test_invalid_usage_is_rejected(argv: list[str], reason: str, ml: Shell) -> None:
    assert f"ml-metrics cluster: error: {reason}" in ml("cluster", *argv, code=2)


def test_run_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ml_metrics.ui.cli", "cluster", "run", "--root", str(tmp_path / "cluster")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert "export KUBECONFIG=" in server.stdout.readline()
            assert "ready" in server.stdout.readline()
            second = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert second.returncode == 2
            assert "another local cluster is serving this folder" in second.stderr
            os.kill(server.pid, signal.SIGINT)
            assert server.wait(300) == 0
        finally:
            server.kill()

"""The command `local-kube`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness import ENVIRONMENT
from local_kube.cli import main
from local_kube.processes import landlock

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

VERBS = ("start", "run", "status", "stop", "kubeconfig")


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_verb_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(tmp_path / "cluster")
    options = ["--root", root, "--json"]
    kubeconfig = f"{root}/kubeconfig"
    unknown = dict.fromkeys(("url", "pid", "image_folder", "confined"))
    stopped = {"root": root, "kubeconfig": kubeconfig, "running": False, **unknown}
    assert main(["status", *options]) == 1
    assert document(capsys) == stopped
    assert main(["start", *options]) == 0
    started = document(capsys)
    assert (started["started"], started["running"]) == (True, True)
    assert started["confined"] == (landlock.version() > 0)
    assert main(["start", *options]) == 0
    assert document(capsys) == {**started, "started": False}
    assert main(["status", *options]) == 0
    assert {**document(capsys), "started": True} == started
    assert main(["kubeconfig", *options]) == 0
    assert document(capsys) == {"kubeconfig": kubeconfig}
    assert main(["stop", *options]) == 0
    assert document(capsys) == {"root": root, "stopped": True}
    assert main(["stop", *options]) == 0
    assert document(capsys) == {"root": root, "stopped": False}


def test_whether_containers_are_confined_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--root", str(tmp_path / "cluster"), "--confine", "off"]
    assert main(["start", *options]) == 0
    capsys.readouterr()
    assert main(["status", *options]) == 0
    assert main(["stop", *options]) == 0
    assert "containers are not confined: they have your own rights\n" in capsys.readouterr().out
    log = (tmp_path / "cluster" / "server.log").read_text()
    assert log.count("WARNING containers are not confined: they have your own rights") == 1


def test_a_cluster_that_must_confine_and_cannot_is_not_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    root = tmp_path / "cluster"
    assert main(["run", "--root", str(root), "--confine", "require"]) == 2
    assert "Landlock, of Linux 5.13, is missing or turned off. Use another kernel" in capsys.readouterr().err
    assert not root.exists()


def test_run_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    root = tmp_path / "cluster"
    command = [sys.executable, "-m", "local_kube.cli", "run", "--root", str(root)]
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        try:
            assert server.stdout is not None
            lines = [server.stdout.readline() for _ in range(5)]
            assert json.loads("".join(lines)) == {
                "root": str(root),
                "kubeconfig": f"{root}/kubeconfig",
                "pid": server.pid,
            }
            second = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=ENVIRONMENT)
            assert (second.returncode, second.stderr.count("\n")) == (2, 1)
            assert "another local cluster is serving this folder" in second.stderr
            os.kill(server.pid, signal.SIGINT)
            assert server.wait(60) == 0
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--port", "99999"], "argument --port: '99999' is not a port: a number from 0 to 65535"),
        (["--port", "-1"], "argument --port: '-1' is not a port"),
        (["--idle-minutes", "-1"], "argument --idle-minutes: '-1' is not a duration: a number of 0 or more"),
        (["--idle-minutes", "nan"], "argument --idle-minutes"),
        (["--max-pods", "-3"], "argument --max-pods: '-3' is not a number of pods: a whole number of 1 or more"),
        (["--max-pods", "0"], "argument --max-pods"),
        (["--cpu", "many"], "argument --cpu: 'many' is not a quantity"),
        (["--memory=-1Gi"], "argument --memory: '-1Gi' is negative"),
        (["--resource", "gpu"], "argument --resource: 'gpu' is not of the form NAME=VALUE"),
        (["--resource", "gpu=many"], "argument --resource: 'many' is not a quantity"),
    ],
)
def test_invalid_options_are_rejected_by_name(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["start", "--root", str(tmp_path / "cluster"), *options])
    assert caught.value.code == 2
    assert f"local-kube: error: {reason}" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "cluster").exists()


def test_the_help_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"  local-kube {verb}" in text for verb in VERBS)
    assert max(map(len, text.splitlines())) <= 80

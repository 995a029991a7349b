"""`ml-metrics completion`: what may stand where the last word does, and the scripts in their shells."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from missing import missing
from ml_metrics.ui.cli.completion import SCRIPTS
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST

ASK = {
    "bash": "COMP_WORDS=(ml-metrics look ch); COMP_CWORD=2; _ml_metrics; echo ${COMPREPLY[@]}",
    "zsh": "words=(ml-metrics look ch); CURRENT=3; _ml_metrics",
    "fish": "complete -C 'ml-metrics look ch'",
}
"""How each shell is asked; of zsh, only what a script calls is there."""
ZSH = "compdef() { :; }; compadd() { print $found; }; _files() { :; }\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["hist"], ["history"]),
        (["loo"], ["look"]),
        (["look", "no"], ["nodes"]),
        (["history", "--js"], ["--json", "--jsonl"]),
        (["look", "history", TEST[:4]], [TEST]),
        (["history", "--limit", "5", TEST[:4]], [TEST]),
        (["history", TEST, "total"], ["total_wall_time"]),
        (["export", TEST, "--format", "j"], ["junit"]),
        (["completion", "z"], ["zsh"]),
        (["validate", ""], []),
        (["no-command", ""], []),
        (["history", TEST, "total_wall_time", ""], []),
    ],
)
def test_words(
    words: list[str],
    expected: list[str],
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    ml: Shell,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WAREHOUSE", address)
    assert ml("completion", "--words=" + "\t".join(words)).split() == expected


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes(shell: str, tmp_path: Path, ml: Shell) -> None:
    program = shutil.which(shell) or missing(f"there is no {shell}")
    script = (ZSH if shell == "zsh" else "") + ml("completion", shell) + ASK[shell]
    done = subprocess.run([program, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["changes"]
    assert done.stderr == ""

"""`ml-metrics bisect`: real commands, wrong ones, and a search that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ml_metrics.ui import cli
from unit.ui.cli.shell import Shell

MEASURE = 'n=${CANDIDATE#c}; [ "$n" = 41 ] && exit 125; echo building; [ "$n" -ge 40 ] && echo 2 || echo 1'
"""The level changes with c40; c41 does not build."""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("candidates.txt").write_text("".join(f"c{place}\n" for place in range(64)))
    Path("good.json").write_text(json.dumps({"step_time": [1.0] * 9, "duration": [1.0] * 9, "m": [1, None]}))
    Path("bad.json").write_text(json.dumps({"step_time": [2.0] * 9, "duration": [2.0] * 9, "m": [2]}))


def argv(*options: str, command: str = MEASURE) -> list[str]:
    return ["bisect", "--candidates", "candidates.txt", "--run", command, "--journal", "journal.jsonl", *options]


KNOWN = ("--from", "good.json", "--to", "bad.json", "--metric", "step_time")


def test_the_pair_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert cli.main(argv(*KNOWN)) == 0
    printed = capsys.readouterr()
    assert "the level changed with c40\ngood: c39 (1" in printed.out
    assert "run 1 of at most 64: c" in printed.err
    assert cli.main(argv(*KNOWN, "--json")) == 0
    again = capsys.readouterr()
    found = json.loads(again.out)
    assert again.err == ""  # everything is in the journal
    assert (found["good"], found["bad"], found["found"], found["runs"]) == ("c39", "c40", True, len(found["probes"]))


def test_values_have_the_unit_of_the_metric(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    of_times = (*KNOWN[:-1], "duration")
    assert cli.main(argv(*of_times)) == 0
    printed = capsys.readouterr()
    assert "good: c39 (1 s, 1 s)\n" in printed.out
    assert ": c40: 2 s\n" in printed.err
    assert cli.main(argv(*of_times, "--markdown")) == 0
    assert "| c39 | 1 s, 1 s |" in capsys.readouterr().out


def test_a_curve_is_searched_where_both_ends_differ(ml: Shell) -> None:
    """The last points get worse with c40; c41 measures no others, so it is left out."""
    command = """
        noise=$(( $(wc -l <journal.jsonl) * 7 % 5 )); n=${CANDIDATE#c}; y=$(( n < 40 ? 33 : 43 )).$noise
        [ $n = 41 ] && echo "[[1, 10.$noise], [2, 11.$noise]]" ||
            echo "[[1, 10.$noise], [2, 11.$noise], [4, 13.$noise], [8, 17.$noise], [16, $y], [32, $y], [64, $y]]"
    """
    out = ml(*argv(command=command))
    assert "the level changed with c40: from 16 on (x)\ngood: c39 (" in out
    found = json.loads(ml(*argv("--json", command=command)))
    broken = {one["candidate"] for one in found["probes"] if one["value"] is None}
    assert broken == {one["candidate"] for one in found["probes"] if one["state"] == "broken"} == {"c41"}
    values = [(one["candidate"] >= "c40", one["value"]) for one in found["probes"] if one["candidate"] != "c41"]
    assert all(value > 120 if is_bad else 98 < value < 102 for is_bad, value in values), values


def test_nothing_is_an_answer(ml: Shell) -> None:
    assert "nothing found: between c0 and c63, there is no more than noise\n" in ml(*argv(command="echo 1"), code=1)


@pytest.mark.parametrize("command", ["exit 3", "echo words", "true", "echo nan", "kill -9 $$"])
def test_runs_that_break(command: str, ml: Shell) -> None:
    assert "cannot be measured" in ml(*argv(command=command), code=1)


def test_a_run_that_hangs_is_broken(ml: Shell) -> None:
    assert "cannot be measured" in ml(*argv("--timeout", "0.05", command="sleep 600 & wait"), code=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--run", "no-such-program"], "the shell cannot run 'no-such-program': exit code 127"),
        (["--max-runs", "1"], "takes 12 runs or more"),
        (["--from", "good.json"], "--from: good.json: name one of its metrics with --metric"),
        (["--from", "good.json", "--metric", "step_tme"], "has no metric 'step_tme'; did you mean 'step_time'?"),
        (["--candidates", "none.txt"], "none.txt"),
        (["--candidates", "one.txt"], "1 given: a search needs a good and a bad one"),
    ],
)
def test_wrong_usage(options: list[str], message: str, ml: Shell) -> None:
    Path("one.txt").write_text("c0\n")
    assert message in ml(*argv(), *options, code=2)


def test_a_candidate_is_no_shell_command(capsys: pytest.CaptureFixture[str]) -> None:
    Path("candidates.txt").write_text("$(touch pwned)\n; touch pwned\n")
    assert cli.main(argv(command='echo "$CANDIDATE" >seen; echo 1')) == 1
    assert not Path("pwned").exists()
    assert Path("seen").read_text().strip() in {"$(touch pwned)", "; touch pwned"}
    capsys.readouterr()


def test_a_killed_search_goes_on(ml: Shell) -> None:
    slow = f"sleep 0.1; {MEASURE}"
    journal, deadline = Path("journal.jsonl"), time.monotonic() + 60
    process = subprocess.Popen([sys.executable, "-m", "ml_metrics.ui.cli", *argv(*KNOWN, command=slow)])
    while time.monotonic() < deadline and not (journal.exists() and journal.read_text().count("\n") >= 3):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = journal.read_text().splitlines()
    assert len(before) >= 3
    time.sleep(0.2)  # the command of the killed process ends
    found = json.loads(ml(*argv(*KNOWN, "--json", command=slow)))
    assert (found["good"], found["bad"]) == ("c39", "c40")
    assert Path("journal.jsonl").read_text().splitlines()[: len(before)] == before

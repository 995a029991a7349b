"""`ml-metrics compare`: verdicts, exit codes, and what it prints for people, comments and CI."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from golden import check
from ml_metrics.ui import cli
from ml_metrics.ui.cli import measuring, output

BASE = {
    "step_time_median": [100.1, 101.2, 99.4, 100.5, 99.2, 100.1, 100.9, 99.0],
    "accuracy_final": [0.912, 0.911, 0.912, 0.913, 0.911, 0.912, 0.912, 0.913],
    "throughput": [50.1, 50.4, 49.8, 50.0, 50.2, 49.9, 50.3, 50.0],
    "errors": [0, 0, 0, 0],
    "grad|norm*": [3, 1, 2],
    "loss_final": [0.31, None, "NaN", 0.3, 0.32, 0.31],
}
CANDIDATE = {
    "step_time_median": [105.2, 106.1, 104.3, 105.5, 104.2, 300.0, 106.2, 104.9],
    "accuracy_final": [0.912, 0.912, 0.911, 0.913, 0.912, 0.911, 0.913, 0.912],
    "throughput": [55.2, 55.1, 54.9, 55.3, 55.0, 55.2, 54.8, 55.1],
    "errors": [0, 0, 0, 0],
    "grad|norm*": [3, 1, 2],
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "loop_seconds", lambda: 0.001)  # whatever else this machine does
    Path("a.json").write_text(json.dumps(BASE))
    Path("b.json").write_text(json.dumps(CANDIDATE))


def compare(*options: str) -> int:
    return cli.main(["compare", "--from", "a.json", "--to", "b.json", *options])


def document(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    compare(*options, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("name", "options"), [("table", []), ("markdown", ["--markdown"]), ("json", ["--json"])])
def test_what_is_printed(name: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*options) == 1
    printed = capsys.readouterr()
    check(f"cli/compare-{name}.txt", printed.out)
    assert printed.err == "warning: loss_final is missing in the candidate\n"


def test_junit(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("--junit", "found.xml") == 1
    check("cli/compare-junit.xml", Path("found.xml").read_text())
    suite = ET.parse("found.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("6", "1", "2")
    assert compare("--junit", "none/found.xml") == 2
    assert "none/found.xml: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--metric", "step_time_median"], 1),
        (["--metric", "accuracy_final", "--metric", "throughput"], 0),
        (["--metric", "grad|norm*"], 0),
        (["--metric", "grad|norm*", "--strict"], 1),
        (["--metric", "step_time_median", "--effect", "10%"], 0),
        (["--metric", "step_time_median", "--better", "step_time_median=higher"], 0),
        (["--metric", "step_time_median", "--better", "step_time_median=neither"], 0),
        (["--metric", "throughput", "--better", "throughput=lower"], 1),
        (["--metric", "accuracy_final", "--in-turns"], 0),
    ],
)
def test_exit_codes(options: list[str], code: int) -> None:
    assert compare(*options) == code


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--metric", "step_time_medan"],
            "neither file has a metric 'step_time_medan'; did you mean 'step_time_median'?",
        ),
        (["--effect", "0%"], "argument --effect: '0%' should be a percentage above 0 such as 2%"),
        (["--effect", "nan"], "should be a percentage"),
        (["--better", "m=up"], "should end with =higher, =lower or =neither"),
        (["--from", "none.json"], "none.json"),
        (["--json", "--markdown"], "not allowed with argument"),
        (["--base", "a"], "give --from and --to, or --base, --candidate and TEST or --run, not both"),
    ],
)
def test_wrong_usage(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*options) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.json: is not JSON"),
        ("[1]", "a.json: should hold one JSON object: {metric: [values]}"),
        ('{"m": ["x"]}', "a.json: m[0]: 'x' is not a number"),
        ('{"m": [true]}', "a.json: m[0]: True is not a number"),
        ('{"m": [1], "m": [2]}', "'m' occurs twice in one object"),
        ('{"m": {"a": 1}}', "a.json: m[0]"),
    ],
)
def test_unreadable_files(content: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_text(content)
    assert compare() == 2
    assert message in capsys.readouterr().err


def test_files_without_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_text("{}")
    Path("b.json").write_text("{}")
    assert compare() == 2
    assert "the files have no metric" in capsys.readouterr().err


def test_values_in_turns_need_equal_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_text('{"m": [1, 2, 3]}')
    Path("b.json").write_text('{"m": [1, 2]}')
    assert compare("--in-turns") == 2
    assert "m: 3 and 2 values were not measured in turns" in capsys.readouterr().err


def test_turns_cancel_a_drift(capsys: pytest.CaptureFixture[str]) -> None:
    """The host becomes slower by 14 %, the candidate is slower by 3 %."""
    drift = [100 * (1 + 0.02 * place) for place in range(8)]
    Path("a.json").write_text(json.dumps({"step_time": drift}))
    Path("b.json").write_text(json.dumps({"step_time": [1.03 * value for value in drift]}))
    assert document(capsys)["metrics"]["step_time"]["verdict"] == "undecided"
    assert document(capsys, "--in-turns")["metrics"]["step_time"]["verdict"] == "worse"


def test_many_metrics_together(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 20 metrics with 5 repeats in each arm, none can be certain at 5 % for all together."""
    arm = [1.0, 2.0, 3.0, 4.0, 5.0]
    names = [f"step_time_{place}" for place in range(20)]
    Path("a.json").write_text(json.dumps(dict.fromkeys(names, arm)))
    Path("b.json").write_text(json.dumps({**dict.fromkeys(names, arm), names[0]: [value + 9 for value in arm]}))
    assert document(capsys)["metrics"][names[0]]["verdict"] == "worse"
    assert document(capsys, "--together")["metrics"][names[0]]["verdict"] == "undecided"
    compare()
    assert "of 20 metrics without a change, 1 would show one" in capsys.readouterr().out.replace("\n", " ")


def test_a_config_states_the_direction() -> None:
    Path("test.yaml").write_text("metric_collection_config: {metrics: {step_time_median: {better: higher}}}\n")
    assert compare("--metric", "step_time_median", "--config", "test.yaml") == 0


MEASURE = """
echo measuring
case "$CANDIDATE$(wc -l <journal.jsonl)" in
slow*1|slow*3|slow*5) echo '{"step_time": 1.05}';;
slow*) echo '{"step_time": 1.06}';;
*) echo '{"step_time": 1, "text": "x", "flag": true}';; esac
"""


def in_turns(*options: str, candidate: str = "slow", command: str = MEASURE) -> int:
    runs = ["--base", "fast", "--candidate", candidate, "--run", command, "--journal", "journal.jsonl"]
    return cli.main(["compare", *runs, *options])


def test_runs_in_turns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert in_turns("--json") == 1
    printed = capsys.readouterr()
    found = json.loads(printed.out)["metrics"]
    assert list(found) == ["step_time"]
    assert (found["step_time"]["verdict"], found["step_time"]["runs"]) == ("worse", 12)
    assert "run 1 of at most 60: " in printed.err
    assert "12 runs: every metric is decided\n" in printed.err
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert in_turns("--dry-run") == 0
    planned = capsys.readouterr()
    assert planned.out.startswith("planned: ")
    assert planned.err == ""


def test_a_long_comparison_tells_how_far_it_is_in_a_pipe_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "LINE_SECONDS", 0.0)
    assert in_turns() == 1
    assert capsys.readouterr().err.count(" of at most 60: ") == 12
    Path("journal.jsonl").unlink()
    monkeypatch.setattr(output, "LINE_SECONDS", 60.0)
    assert in_turns() == 1
    assert capsys.readouterr().err == ""


SWEEP = """
import json, os, random, sys
slow, turn = os.environ["CANDIDATE"] == "slow", sum(1 for _ in open("journal.jsonl"))
chance = random.Random(turn)
points = [[x, chance.gauss(1, 0.01) * (40 + x) * (1.4 if slow and x > 20 else 1)] for x in (1, 2, 4, 8, 16, 32, 64)]
print(json.dumps({"curve/ttft_ms": points, "wall_s": chance.gauss(10, 0.01)}))
"""


def test_a_curve_is_compared_whole_beside_the_metrics(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    Path("sweep.py").write_text(SWEEP)
    command = f"{sys.executable} sweep.py"
    assert in_turns(command=command) == 1
    printed = capsys.readouterr()
    assert "curve/ttft_ms: higher from 32 on (x) by 3" in printed.out
    assert "1 worse, 1 equivalent" in printed.out
    assert "curve/ttft_ms of 7 points" in printed.err
    assert in_turns("--json", command=command) == 1
    of_turns = json.loads(capsys.readouterr().out)["metrics"]["curve/ttft_ms"]
    assert (of_turns["verdict"], of_turns["where"], of_turns["runs"]) == ("worse", "from 32 on (x)", 12)
    runs = [json.loads(line) for line in Path("journal.jsonl").read_text().splitlines()[1:]]
    for name, arm in (("a.json", "base"), ("b.json", "candidate")):
        curves = [one["values"]["curve/ttft_ms"] for one in runs if one["arm"] == arm]
        Path(name).write_text(
            json.dumps({"curve/ttft_ms": [*curves[1:], [point[:2] for point in curves[0]["points"]]]})
        )
    found = document(capsys)["metrics"]["curve/ttft_ms"]
    assert (found["verdict"], found["where"]) == ("worse", "from 32 on (x)")


def test_a_killed_comparison_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert in_turns("--json") == 1
    whole = capsys.readouterr().out
    lines = Path("journal.jsonl").read_bytes().splitlines(keepends=True)
    Path("journal.jsonl").write_bytes(b"".join(lines[:6]) + b'{"arm": "ba')
    assert in_turns("--json") == 1
    printed = capsys.readouterr()
    assert printed.out == whole
    assert printed.err.count("of at most") == 12 - 5


@pytest.mark.parametrize(
    ("options", "candidate", "command", "message"),
    [
        (
            ["--max-runs", "1"],
            "slow",
            MEASURE,
            "max_runs: 1 cannot decide anything: a comparison takes 12 runs or more",
        ),
        ([], "fast", MEASURE, "--base and --candidate are both fast: there is nothing to compare"),
        ([], "slow", "exit 1", "nothing was measured: every run of the base and the candidate broke"),
        ([], "slow", "no-such-program", "the shell cannot run 'no-such-program': exit code 127"),
        ([], "slow", "echo '{}'", "nothing was measured: every run of the base and the candidate broke"),
    ],
)
def test_what_cannot_be_measured(
    options: list[str], candidate: str, command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert in_turns(*options, candidate=candidate, command=command) == 2
    assert message in capsys.readouterr().err


def test_an_image_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert in_turns("--metric", "step_time", command='[ "$CANDIDATE" = fast ] && echo \'{"step_time": 1}\'') == 1
    printed = capsys.readouterr()
    assert "4 runs: every run of the candidate broke" in printed.err
    assert "the candidate did not measure it" in printed.out


def test_the_journal_of_another_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert in_turns() == 1
    assert in_turns("--effect", "1%") == 2
    assert "another question: other values of effect" in capsys.readouterr().err


def trials(*options: str) -> int:
    runs = ["--base", "app:1", "--candidate", "app:2", "--journal", "journal.jsonl"]
    return cli.main(["compare", "a-test", *runs, "--warehouse", "sqlite:///w.db", *options])


def test_trials_that_record_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For example of a test that does not exist, or that does not allow another image."""
    Path("airflow").write_text('#!/bin/sh\necho "$@" >>calls\necho "why it failed"\nexit 1\n')
    Path("airflow").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert cli.main(["schema", "--warehouse", "sqlite:///w.db"]) == 0
    assert trials() == 2
    printed = capsys.readouterr()
    assert printed.err.count("why it failed") == 4
    assert "nothing was measured: every run of the base and the candidate broke" in printed.err
    calls = sorted(set(Path("calls").read_text().splitlines()))
    assert calls == [f'dags test a-test --conf {{"image": "app:{tag}", "trial": "yes"}}' for tag in (1, 2)]


def test_trials_without_airflow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "--warehouse", "sqlite:///w.db"]) == 0
    monkeypatch.setenv("PATH", "/nowhere")
    assert trials() == 2
    assert "the command `airflow` was not found: use the environment of Airflow" in capsys.readouterr().err


def test_a_test_and_a_command_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert trials("--run", "true") == 2
    assert "give TEST or --run, not both" in capsys.readouterr().err

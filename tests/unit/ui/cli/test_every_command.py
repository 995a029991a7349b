"""What holds for every command: JSON is one document, and a hostile value is an error, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_metrics.ui import cli
from ml_metrics.ui.cli.commands import COMMANDS, parser_of
from unit.warehouse.records import TEST

HOSTILE = {
    "empty": "",
    "blank": " ",
    "zero": "0",
    "negative": "-1",
    "nan": "nan",
    "infinite": "-inf",
    "overflow": "1e400",
    "huge number": "99999999999999999999",
    "long number": "9" * 5000,
    "long text": "x" * 5000,
    "unicode": "h\u00e9llo \U0001f600",
    "newline": "a\nb",
    "escape": "a\x1b[2Jb",
    "NUL": "a\0b",
    "not UTF-8": "\udcff",
    "parent": "../..",
    "percent": "%s %(prog)s {0}",
    "quote": "'; DROP TABLE job_history; --",
}
NUMBERS = {
    "--limit", "--runs", "--days", "--window", "--ideal-step-time", "--interval", "--create", "--max-pods",
    "--certainty", "--min-change", "--effect", "--max-runs", "--keep-days", "--keep-failed-days", "--timeout",
}  # fmt: skip
"""Options for which every value above is wrong."""
TEST_FILE = "{name: a-test, image: i, command: [c]}"


@pytest.fixture
def base(address: str, empty_home: Path) -> dict[str, list[str]]:
    """A command line of each command that works."""
    Path("configs").mkdir()
    Path("configs/a.yaml").write_text(TEST_FILE)
    Path("run").mkdir()
    Path("metrics.json").write_text('{"loss_final": 1}')
    Path("repeats.json").write_text('{"loss_final": [1, 2, 3]}')
    Path("candidates.txt").write_text("a\nb\n")
    Path("history.jsonl").write_text(json.dumps({"metric_name": "loss_final", "metric_value": 1}) + "\n")
    warehouse = ["--warehouse", address]
    return {
        "validate": ["configs/a.yaml"],
        "collect": ["configs/a.yaml", "run"],
        "formats": ["metrics.json"],
        "goodput": ["run"],
        "stragglers": ["run"],
        "judge": ["configs/a.yaml", "--metrics", "metrics.json"],
        "replay": ["configs/a.yaml", "--history", "history.jsonl"],
        "calibrate": [TEST, *warehouse],
        "compare": ["--from", "repeats.json", "--to", "repeats.json"],
        "bisect": ["--candidates", "candidates.txt", "--run", "exit 125", "--journal", "journal.jsonl"],
        "render": ["configs/a.yaml"],
        "tests": warehouse,
        "history": [TEST, *warehouse],
        "curve": [TEST, *warehouse],
        "export": [TEST, "--format", "csv", *warehouse],
        "changes": [TEST, *warehouse],
        "nodes": warehouse,
        "cost": warehouse,
        "experiments": [],
        "alerts": warehouse,
        "night": warehouse,
        "messages": warehouse,
        "report": ["report", *warehouse],
        "accept": [TEST, "total_wall_time", "--reason", "x", *warehouse],
        "ack": [TEST, *warehouse],
        "load": ["run", *warehouse],
        "backfill": [TEST, "--runs", str(empty_home / "run"), *warehouse],
        "schema": warehouse,
        "import": [address, *warehouse],
        "storage": warehouse,
        "doctor": [],
        "clusters": [],
        "pools": [],
        "demo": ["--help"],
        "run": ["--help"],
        "new": ["b-test", "--command", "c"],
        "open": [],
        "completion": ["bash"],
        "cluster": ["status", "--root", str(empty_home / "cluster")],
    }


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"completion", "demo", "run", "backfill", "import"}))
def test_json_is_one_document(
    command: str, base: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", "configs")
    assert cli.main([command, *base[command], "--json"]) in {0, 1, 2}
    assert isinstance(json.loads(capsys.readouterr().out), dict)


@pytest.mark.parametrize("command", COMMANDS)
def test_hostile_values(
    command: str, base: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", "configs")
    argv = [command, *base[command]]
    for option in options_of(command):
        for name, value in HOSTILE.items():
            code = cli.main([*argv, f"{option}={value}"])
            printed = capsys.readouterr()
            case = f"{option} {name}: {code}\n{printed.out}{printed.err}"
            assert code in {0, 1, 2}, case
            assert code == 2 or option not in NUMBERS, case
            assert code != 2 or printed.err, case
            assert command == "cluster" or "\x1b" not in printed.out + printed.err, case  # prints a path as it is
            assert not any(word in printed.err for word in ("Traceback", "invalid _", "value:")), case
    for position in positionals_of(argv):
        for name, value in HOSTILE.items():
            code = cli.main([*argv[:position], value, *argv[position + 1 :]])
            printed = capsys.readouterr()
            case = f"argument {position} {name}: {code}\n{printed.out}{printed.err}"
            assert code in {0, 1, 2}, case
            assert code != 2 or printed.err, case
            assert "\x1b" not in printed.out + printed.err, case


def options_of(command: str) -> list[str]:
    """The options of a command that take a value."""
    actions = parser_of(command)._actions
    return [action.option_strings[-1] for action in actions if action.option_strings and action.nargs != 0]


def positionals_of(argv: list[str]) -> list[int]:
    """The positions of the arguments between the command and its first option."""
    first_option = next((index for index, word in enumerate(argv) if word.startswith("--")), len(argv))
    return list(range(1, first_option))


PROBLEMS = {
    "backfill": "there is no run folder of a test",
    "collect": "has no metrics in any of its 0 files",
    "goodput": "warning: there is no goodput log",
    "import": "no such column: job_name",
    "load": "is not a run folder",
    "stragglers": "warning: there is no goodput log",
}
"""What is wrong with the command lines above."""


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_only_problems_are_on_standard_error(
    command: str, base: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", "configs")
    cli.main([command, *base[command]])
    printed = capfd.readouterr()
    assert PROBLEMS.get(command, "") in printed.err, printed.out
    assert command in PROBLEMS or not printed.err

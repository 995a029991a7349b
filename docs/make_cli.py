"""Write docs/cli.md from the help texts of `ml-metrics`, with examples that it runs. `make docs` calls this program.

    python docs/make_cli.py [FILE]

The examples run in a temporary folder with one test, `digits-cpu`, and the folders of three runs.
"""

# ruff: noqa: INP001, SLF001  (a script, no package; argparse has no public list of arguments)
from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import sys
import tempfile
import textwrap
from argparse import SUPPRESS, Action
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random
from unittest.mock import patch

import yaml

from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.judge.compare.plan import Plan
from ml_metrics.pipeline.experiments.comparison import Comparison
from ml_metrics.pipeline.experiments.journal import open_journal
from ml_metrics.pipeline.experiments.run_ids import COMPARE
from ml_metrics.pipeline.experiments.trial import TrialRun
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli import main
from ml_metrics.ui.cli.arguments import HelpFormatter, Parser
from ml_metrics.ui.cli.commands import GROUPS, parser_of
from ml_metrics.warehouse.warehouse import open_warehouse

TEST = "digits-cpu"
TEST_FILE = f"""\
name: {TEST}
image: python:3.11
command: [python3, train.py]
owner: vision-team
goodput: {{enabled: false}}
regression_test_config:
  metric_success_conditions:
    accuracy: {{comparison: greater, success_threshold: {{fixed_value: 0.96}}}}
    total_wall_time: {{comparison: less, success_threshold: {{fixed_value: 600}}}}
"""
BEGIN = datetime(2026, 3, 2, 6, tzinfo=UTC)
ACCURACIES = (0.971, 0.974, 0.938)
CONFIG = "include/metric_configs/digits-cpu.yaml"
STORAGE_ROOT = ".airflow/ml_metrics/runs"
MAX_LINES = 8
MAX_WIDTH = 120
"""Longer output is cut."""
EVERYWHERE = ("--json", "--warehouse ADDRESS", "--deployment NAME", "TEST")
"""Arguments that sections do not name."""
TWO_CALLS = {"judge", "new"}
"""Commands with two examples, of different uses; others have one. `--help` has more."""
UNTOLD = {
    *("changes", "cluster", "clusters", "completion", "cost", "import", "load", "messages", "nodes", "open", "pools"),
    *("report", "schema", "storage", "stragglers", "validate"),  # little can be learnt from it
    *("backfill", "experiments", "export", "judge", "night", "render"),
    *("calibrate", "demo", "doctor", "replay", "run"),  # another page shows it
}
"""Commands whose output the page leaves out."""
TOLD_LINES = {"history": 1}
"""Of how many of a command's examples the page shows the output; of all, if it is not here."""

INTRODUCTION = """\
# The command line

`ml-metrics` calls the same functions as the tasks of a run. `ml-metrics --help` lists the commands, `ml-metrics
COMMAND --help` explains one.

| exit code | meaning |
| --- | --- |
| 0 | the answer is yes, or there is nothing to report |
| 1 | the answer is no: an invalid config, a failed verdict, no metric, no open alert |
| 2 | wrong usage, or something that cannot be read: one sentence on standard error |

With `--json`, standard output holds one JSON document and nothing else. Verdicts have a colour on a terminal, unless
`NO_COLOR` is set. Commands that only read create nothing: a mistyped address of a warehouse is an error.

Every command that reads or writes history has `--warehouse` and `--deployment`; the sections leave them out.
"""

HYPERFINE = '{"results": [{"command": "sleep 0.01", "times": [0.0131, 0.0130, 0.0132], "exit_codes": [0, 0, 0]}]}'

CURVE = """
$ ml-metrics curve serving-cpu
run df9a3112 of 2026-03-24 07:55, 3 curves

curve           over         from              unit  verdict
latency_p50_ms  concurrency  1 to 12  ▁▁▁▂▃▅█  ms    fail
latency_p99_ms  concurrency  1 to 12  ▁▁▁▂▄▅█  ms    -
throughput      concurrency  1 to 12  ▁▇█████  1/s   fail
"""


def run_keys() -> list[str]:
    """Return the keys of the runs, oldest first."""
    return [_run(day).key for day in range(len(ACCURACIES))]


def examples() -> dict[str, list[str]]:
    """Return the command lines of each command's example."""
    run_dir = f"{STORAGE_ROOT}/{TEST}/{run_keys()[-1]}"
    return {
        "validate": ["ml-metrics validate include/metric_configs"],
        "collect": [f"ml-metrics collect {CONFIG} {run_dir}"],
        "formats": ["ml-metrics formats hyperfine.json"],
        "goodput": [f"ml-metrics goodput {run_dir}"],
        "stragglers": [f"ml-metrics stragglers {run_dir}"],
        "judge": [
            f"ml-metrics collect {CONFIG} {run_dir} --json > metrics.json",
            f"ml-metrics judge {CONFIG} --metrics metrics.json",
        ],
        "replay": [
            f"ml-metrics replay {TEST}",
            f'ml-metrics replay {TEST} --rule "less 5 % of best" --metric total_wall_time',
        ],
        "calibrate": [f"ml-metrics calibrate {CONFIG} --history past.jsonl"],
        "compare": ["ml-metrics compare --from base.json --to candidate.json"],
        "bisect": ["ml-metrics bisect --candidates tags.txt --run ./measure.sh --journal j.jsonl"],
        "render": [f"ml-metrics render {CONFIG} --pod"],
        "run": [],
        "new": ["ml-metrics new hello-cpu --command 'python3 hello.py'"],
        "open": [],
        "completion": ["ml-metrics completion fish"],
        "tests": ["ml-metrics tests"],
        "history": [
            f"ml-metrics history {TEST}",
            f"ml-metrics history {TEST} accuracy",
            f"ml-metrics history {TEST} accuracy --limit 1 --jsonl",
        ],
        "curve": [],
        "export": [f"ml-metrics export {TEST} --format openmetrics"],
        "changes": [f"ml-metrics changes {TEST}"],
        "nodes": ["ml-metrics nodes"],
        "cost": [f"ml-metrics cost {TEST} --week 2026-W10"],
        "experiments": ["ml-metrics experiments"],
        "alerts": ["ml-metrics alerts"],
        "night": ["ml-metrics night"],
        "messages": ["ml-metrics messages"],
        "report": ["ml-metrics report report --since 2026-03-01 --until 2026-03-31"],
        "accept": [f'ml-metrics accept {TEST} accuracy --reason "a smaller network" --by jane'],
        "ack": [f'ml-metrics ack {TEST} --note "fixed by Friday" --by jane'],
        "load": [f"ml-metrics load {run_dir}"],
        "backfill": [f"ml-metrics backfill {TEST}"],
        "schema": ["ml-metrics schema"],
        "import": ["ml-metrics import sqlite:///older.db"],
        "storage": ["ml-metrics storage"],
        "doctor": [],
        "clusters": ["ml-metrics clusters"],
        "pools": ["ml-metrics pools"],
        "demo": [],
        "cluster": ["ml-metrics cluster status"],
    }


def page() -> str:
    """Return the text of docs/cli.md."""
    parts = [INTRODUCTION, shared_options()]
    with tempfile.TemporaryDirectory() as folder, chdir(folder), patch.dict(os.environ, _environment(folder)):
        _prepare()
        for group in GROUPS.values():
            parts.append(f"## {group.title}\n")
            parts.extend(_section(name, examples()[name], folder) for name in group.commands)
    return "\n".join(parts)


def shared_options() -> str:
    """Return a table of the arguments that several commands have in common."""
    rows = [f"| `{form}` | {about} |" for form, about in _shared() if form not in {"TEST", "--json"}]
    return "\n".join(["| argument | meaning |", "| --- | --- |", *rows]).replace("TEST|CONFIG", "TEST\\|CONFIG") + "\n"


def _shared() -> dict[tuple[str, str], list[str]]:
    """Return the arguments that are the same in at least three commands, each with their names."""
    return {argument: names for argument, names in _commands_with().items() if len(names) >= 3}


def _commands_with() -> dict[tuple[str, str], list[str]]:
    """Return each argument with the commands that have it, in the order of the page."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in (name for group in GROUPS.values() for name in group.commands):
        for action in filter(_is_shown, parser_of(name)._actions):
            found.setdefault((_form(action), _about(action)), []).append(name)
    return found


def _is_shown(action: Action) -> bool:
    return action.help != SUPPRESS and "--help" not in action.option_strings


def _form(action: Action) -> str:
    """Return an argument as the user writes it: `--limit N`."""
    value = HelpFormatter("")._format_args(action, action.dest.upper())
    return " ".join(part for part in (*action.option_strings[-1:], value) if part)


def _about(action: Action) -> str:
    text = (action.help or "") % {"default": action.default}
    return f"{text} (required)" if action.required and action.option_strings else text


def _arguments(name: str, parser: Parser) -> str:
    """Return the arguments of a command: those that the page has explained only by their names."""
    shared, blocks = _shared(), []
    groups = {
        group.title or "": {_form(action): _about(action) for action in filter(_is_shown, group._group_actions)}
        for group in parser._action_groups
    }
    common = [form for group in groups.values() for form in group.items() if form in shared]
    named = [form for form, _ in common if form not in EVERYWHERE]
    if named:
        blocks.append(f"  {', '.join(named)}: see above")
    twice = _explained_before(name, [form for group in groups.values() for form in group.items()])
    for other, forms in twice.items():
        line = f"{', '.join(form for form, _ in forms)}: see `{other}`"
        blocks.extend(f"  {part}" for part in textwrap.wrap(line, 76, break_on_hyphens=False))
        common += forms
    first = {**groups.pop("positional arguments"), **groups.pop("options")}
    for title, group in {"": first, **groups}.items():
        own = {form: about for form, about in group.items() if (form, about) not in common}
        width = min(24, max((len(form) for form in own), default=0))
        lines = [line for form, about in own.items() for line in _wrapped(form, about, width)]
        blocks.extend([f"{title}:", *lines] if title and lines else lines)
    return "\n".join(blocks)


def _explained_before(name: str, arguments: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Return the arguments that an earlier section explains, by its command."""
    explained: dict[str, list[tuple[str, str]]] = {}
    for argument in arguments:
        first, *others = _commands_with()[argument]
        if len(others) == 1 and first != name and argument[0] not in EVERYWHERE:
            explained.setdefault(first, []).append(argument)
    return {other: found for other, found in explained.items() if len(found) > 1 or len(found[0][1].split()) > 6}


def _wrapped(form: str, about: str, width: int) -> list[str]:
    lines = textwrap.wrap(about, 74 - width, break_on_hyphens=False) or [""]
    first = [f"  {form}"] if len(form) > width else []
    begin = "" if first else form
    return first + [f"  {begin if not number else '':<{width}}  {line}".rstrip() for number, line in enumerate(lines)]


def _calls(parser: Parser) -> list[str]:
    """Return the first examples of the help, without one that has no argument if there are others."""
    lines = (parser.epilog or "").partition("\n")[2].rstrip().replace("\\\n", "\\\0").splitlines()
    calls = [line.strip().replace("\0", "\n") for line in lines if len(line.split()) > 2 or len(lines) == 1]
    return calls if "completion" in parser.prog else calls[:2]


def _section(name: str, lines: list[str], folder: str) -> str:
    parser = parser_of(name)
    description, calls = parser.description or "", _calls(parser)
    shown = CURVE if name == "curve" else ""
    if name not in UNTOLD:
        shown += "\n".join(map(_shown, lines[: TOLD_LINES.get(name)])).replace(folder, "/home/jane/project")
        calls = calls[1:] if shown else calls
    if name not in TWO_CALLS | {"completion"}:
        calls = [] if shown else calls[:1]
    arguments = _arguments(name, parser)
    return (
        "\n\n".join(
            part
            for part in [
                f"### `ml-metrics {name}`",
                _markdown(description),
                arguments and f"```text\n{arguments}\n```",
                calls and "```bash\n" + "\n".join(calls) + "\n```",
                shown and f"```console\n{shown.strip()}\n```",
            ]
            if part
        )
        + "\n"
    )


def _markdown(text: str) -> str:
    """Return a description as Markdown: indented paragraphs become blocks of code, names of pages links."""
    paragraphs = text.strip().split("\n\n")
    blocks = (f"```text\n{part}\n```" if part.startswith(" ") else part for part in paragraphs)
    return re.sub(r"docs/([a-z-]+\.md)", r"[\1](\1)", "\n\n".join(blocks))


def _shown(line: str) -> str:
    """Run a command line, and return it with what it prints, as on a terminal."""
    command, _, file = line.partition(" > ")
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(StringIO()):
        main(shlex.split(command)[1:])
    if file:
        Path(file).write_text(out.getvalue(), encoding="utf-8")
        return f"$ {line}"
    lines = out.getvalue().rstrip().splitlines()
    printed = [
        line if len(line) <= MAX_WIDTH else textwrap.shorten(line, MAX_WIDTH, placeholder=" ...") for line in lines
    ]
    if len(printed) > MAX_LINES:
        printed = [*printed[:MAX_LINES], "..."]
    return "\n".join([f"$ {line}", *printed])


def _environment(folder: str) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": f"{folder}/.airflow",
        "AIRFLOW__ML_METRICS__CONFIG_ROOT": "include/metric_configs",
        "AIRFLOW__ML_METRICS__STORAGE_ROOT": STORAGE_ROOT,
        "AIRFLOW__ML_METRICS__WAREHOUSE_FILE": ".airflow/ml_metrics/warehouse.db",
        "COLUMNS": "80",
        "TZ": "UTC",
    }


def _prepare() -> None:
    """Write the test file, the run folders, the warehouse with an open alert, and an older system's tables."""
    Path(CONFIG).parent.mkdir(parents=True)
    Path(CONFIG).write_text(TEST_FILE, encoding="utf-8")
    for day, accuracy in enumerate(ACCURACIES):
        _write_run(day, accuracy)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        main(["backfill", TEST])
    newest = _run(len(ACCURACIES) - 1).key
    with open_warehouse("sqlite:///.airflow/ml_metrics/warehouse.db") as warehouse:
        at = BEGIN + timedelta(days=len(ACCURACIES) - 1, minutes=6)
        warehouse.incidents.report(TEST, newest, fingerprint="f", reasons=["out_of_bounds:accuracy"], at=at)
    _write_older_tables(Path("older.db"))
    _write_past(Path("past.jsonl"))
    Path("hyperfine.json").write_text(HYPERFINE, encoding="utf-8")
    _write_repeats()
    _write_experiment()


def _write_experiment() -> None:
    """Write the journal of a comparison in which the candidate's loss is higher in each run."""
    comparison = Comparison(TEST, "image", "app:1", "app:2", Plan(2.0, 60, ("loss",)))
    key, began = Run(COMPARE, COMPARE, "by_hand", "local").key, BEGIN + timedelta(days=1)
    losses = {"app:1": 0.03, "app:2": 0.04}
    with patch("ml_metrics.pipeline.experiments.journal._now", lambda: began):  # `storage` prints it
        journal = open_journal(STORAGE_ROOT, key, comparison.question())
        while version := comparison.next_version(journal.trials):
            journal = journal.add(TrialRun(version, values={"loss": losses[version]}))
        journal.write(comparison.result(journal.trials))


def _write_past(path: Path) -> None:
    """Write the history of half a year, in which the level changed once."""
    random = Random(1)  # noqa: S311  (an example, no secret)
    levels = [300] * 100 + [270] * 80
    rows = [
        {
            "uuid": f"{day:08}",
            "timestamp": (BEGIN - timedelta(days=len(levels) - day)).isoformat(),
            "metric_name": "total_wall_time",
            "metric_value": round(level * random.gauss(1, 0.01), 1),
        }
        for day, level in enumerate(levels)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_repeats() -> None:
    """Write the values of two versions, and a program that measures one of many: from `app:12` on, it is slower."""
    random = Random(2)  # noqa: S311  (an example, no secret)
    slower = {"step_time": 1.04, "accuracy": 1.0}
    for name, change in (("base", dict.fromkeys(slower, 1.0)), ("candidate", slower)):
        repeats = {
            metric: [round(level * change[metric] * random.gauss(1, noise), 4) for _ in range(10)]
            for metric, level, noise in (("step_time", 0.25, 0.01), ("accuracy", 0.96, 0.002))
        }
        Path(f"{name}.json").write_text(json.dumps(repeats), encoding="utf-8")
    Path("tags.txt").write_text("".join(f"app:{number}\n" for number in range(1, 17)), encoding="utf-8")
    measure = '#!/bin/sh\n[ "${CANDIDATE#app:}" -ge 12 ] && echo 0.26 || echo 0.25\n'
    Path("measure.sh").write_text(measure, encoding="utf-8")
    Path("measure.sh").chmod(0o755)


def _run(day: int) -> Run:
    return Run(TEST, TEST, f"scheduled__2026-03-0{2 + day}", "local")


def _write_run(day: int, accuracy: float) -> None:
    run, began = _run(day), BEGIN + timedelta(days=day)
    folder = RunFolder.of(run, STORAGE_ROOT)
    identity = {"test": run.test, "dag_id": run.dag_id, "run_id": run.run_id, "deployment": run.deployment}
    folder.write("run", {**identity, "test_file": yaml.safe_load(TEST_FILE)})
    ended = began + timedelta(minutes=5)
    folder.write_workload(Workload(JobStatus.SUCCESS, started_at=began, ended_at=ended))
    results = {"metrics": {"accuracy": accuracy, "loss": round(1 - accuracy, 3)}}
    Path(folder.path, "results.jsonl").write_text(json.dumps(results) + "\n", encoding="utf-8")
    start = began.timestamp()
    steps = [{"step_count": step, "step_start_time": start + 30 + 27 * step} for step in range(10)]
    entries = [{"job_start_time": start}, *steps, {"job_end_time": ended.timestamp()}]
    lines = "".join(json.dumps({"job_name": run.job_name, **entry}) + "\n" for entry in entries)
    Path(folder.path, "goodput.jsonl").write_text(lines, encoding="utf-8")


def _write_older_tables(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE job_history (uuid, timestamp, owner, job_name, job_status);
            CREATE TABLE metric_history (job_uuid, metric_key, metric_value);
            CREATE TABLE metadata_history (job_uuid, metadata_key, metadata_value);
            INSERT INTO job_history VALUES ('a', '2025-01-01 00:00:00', 'jane', 'older-test', 0);
            INSERT INTO metric_history VALUES ('a', 'accuracy', 0.9), ('a', 'loss', 0.1);
            """
        )


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("cli.md")
    target.write_text(page(), encoding="utf-8")

"""The commands of `ml-metrics`, in the order in which `ml-metrics --help` lists them.

A command is a module of this package with `add_arguments(parser)` and `run(arguments) -> int`, which returns the exit
code. The module's docstring is the text of its help. It is imported only when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from ml_metrics.ui.cli.arguments import Parser


GROUPS = {
    "Run and judge": {
        "validate": "check test files and metric configs",
        "collect": "aggregate the metrics of one run",
        "formats": "show the format and the content of a file",
        "goodput": "measure how much of a job's time was productive",
        "stragglers": "find the worker that slows a job down",
        "judge": "judge the metrics of one run",
        "replay": "judge every run of a history again",
        "calibrate": "choose conditions by the noise of each metric",
        "compare": "compare repeats of two versions: worse, better, equivalent",
        "bisect": "find the version that changed a metric, under noise",
        "render": "print a test as a Kubernetes object",
    },
    "Look at recorded runs": {
        "tests": "list the tests with their newest results",
        "history": "show the runs of a test, or the values of a metric",
        "export": "print recorded runs for other programs",
        "changes": "show when the level of each metric changed",
        "nodes": "show which nodes are slow across runs",
        "cost": "show what runs cost, by test, owner and reason",
        "experiments": "list comparisons and searches by trials, with their answers",
        "alerts": "show open alerts, and the messages that were sent",
        "messages": "show messages and their senders, or send what is pending",
        "report": "write the dashboard as static HTML files",
    },
    "Administer": {
        "doctor": "find what is wrong with this installation",
        "accept": "accept the new level of a metric",
        "ack": "acknowledge the open alert of a test",
        "load": "load run folders into the warehouse",
        "backfill": "measure, judge and load the runs of a test again",
        "schema": "create or update the tables of the warehouse",
        "import": "import the history of an older system",
        "storage": "show the size of run folders, or remove old ones",
        "clusters": "show the clusters, and check what Airflow may do there",
        "pools": "show or create the Airflow pools of the tests",
    },
    "On a laptop": {
        "demo": "run one test twice: it fails, then it recovers",
        "cluster": "run pods as processes of this machine",
    },
}
"""Each command with a one-line summary, by group."""

HEAD = """\
usage: ml-metrics COMMAND ...
       ml-metrics --version

Accelerator tests as Airflow DAGs: run, measured, judged, recorded, reported."""
TAIL = """\
`ml-metrics COMMAND --help` explains a command, with examples.
New here? `ml-metrics demo` shows everything once, in about two minutes."""
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
MODULES = {"import": "import_history", "tests": "list_tests"}
"""The modules that cannot have the name of their command: a keyword, and a name that tools mistake for a test."""


def load_command(name: str) -> ModuleType:
    return import_module(f"ml_metrics.ui.cli.{MODULES.get(name, name)}")


def parser_of(name: str) -> Parser:
    from ml_metrics.ui.cli.arguments import Parser

    command = load_command(name)
    about, heading, examples = (command.__doc__ or "").partition("examples:\n")
    parser = Parser(prog=f"ml-metrics {name}", description=about, epilog=heading + examples)
    command.add_arguments(parser)
    return parser


def overview() -> str:
    groups = [
        "\n".join([f"{group}:", *(f"  {name:<11} {summary}" for name, summary in commands.items())])
        for group, commands in GROUPS.items()
    ]
    return "\n\n".join([HEAD, *groups, TAIL])

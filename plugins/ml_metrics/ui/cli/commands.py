"""The commands of `ml-metrics`, in the order in which `ml-metrics --help` lists them.

A command is a module of this package with `add_arguments(parser)` and `run(arguments) -> int`, which returns the exit
code. The module's docstring is the text of its help. It is imported only when it is called.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from ml_metrics.ui.cli.arguments import Parser


@dataclass(frozen=True, slots=True)
class Group:
    """Commands with one purpose."""

    title: str
    main: Mapping[str, str]
    """Those that `ml-metrics --help` explains."""
    more: Mapping[str, str]

    @property
    def commands(self) -> dict[str, str]:
        return {**self.main, **self.more}


GROUPS = {
    "start": Group(
        "Start here",
        {
            "demo": "see everything once: one test that fails and recovers",
            "new": "write a test file: from questions, or from a finished run",
            "validate": "check test files and metric configs",
            "run": "run a test once, and print its verdict and why",
            "open": "open the dashboard",
        },
        {
            "render": "print a test as a Kubernetes object",
            "cluster": "run pods as processes of this machine",
            "completion": "complete commands, tests and metrics in bash, zsh or fish",
        },
    ),
    "look": Group(
        "Look at runs",
        {
            "tests": "list the tests with their newest results",
            "history": "show the runs of a test, or the values of a metric",
            "changes": "show when the level of each metric changed",
            "cost": "show what runs cost, by test, owner and reason",
            "report": "write the dashboard as static HTML files",
        },
        {
            "curve": "show the curves of a test over a load or a size",
            "export": "print recorded runs for other programs",
            "nodes": "show which nodes are slow across runs",
            "experiments": "list comparisons and searches by trials, with their answers",
        },
    ),
    "act": Group(
        "Act on alerts",
        {
            "alerts": "show open alerts, and the messages that were sent",
            "ack": "acknowledge the open alert of a test",
            "accept": "accept the new level of a metric",
        },
        {
            "night": "show a night in ten lines, and what its alert budget sent and held back",
            "messages": "show messages and their senders, or send what is pending",
        },
    ),
    "measure": Group(
        "Measure and compare",
        {
            "calibrate": "choose conditions by the noise of each metric",
            "compare": "compare repeats of two versions: worse, better, equivalent",
            "bisect": "find the version that changed a metric, under noise",
            "goodput": "measure how much of a job's time was productive",
        },
        {
            "formats": "show the format and the content of a file",
            "collect": "aggregate the metrics of one run",
            "judge": "judge the metrics of one run",
            "replay": "judge every run of a history again",
            "stragglers": "find the worker that slows a job down",
        },
    ),
    "admin": Group(
        "Administer",
        {
            "doctor": "find what is wrong with this installation",
            "import": "import the history of an older system",
            "storage": "show the size of run folders, or remove old ones",
        },
        {
            "load": "load run folders into the warehouse",
            "backfill": "measure, judge and load the runs of a test again",
            "schema": "create or update the tables of the warehouse",
            "clusters": "show the clusters, and check what Airflow may do there",
            "pools": "show or create the Airflow pools of the tests",
        },
    ),
}
"""The commands, each with a one-line summary. `ml-metrics look nodes` is `ml-metrics nodes`."""

HEAD = """\
usage: ml-metrics COMMAND ...
       ml-metrics --version

Accelerator tests as Airflow DAGs: run, measured, judged, recorded, reported."""
TAIL = """\
`ml-metrics COMMAND --help` explains a command, with examples. `ml-metrics look`
lists all of a group, and `ml-metrics look nodes` is `ml-metrics nodes`.
New here? `ml-metrics demo` shows everything once, in about two minutes."""
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.commands.items()}
MODULES = {"import": "import_history", "open": "open_dashboard", "tests": "list_tests"}
"""The modules that cannot have the name of their command: a keyword, a function of Python, and a name that tools
mistake for a test."""


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
    groups = []
    for verb, group in GROUPS.items():
        more = textwrap.wrap(", ".join(group.more), 66)
        also = "\n".join(f"  {'more:' if not number else '':<11} {line}" for number, line in enumerate(more))
        groups.append(f"{_listed(f'{group.title} ({verb})', group.main)}\n{also}")
    return "\n\n".join([HEAD, *groups, TAIL])


def overview_of(verb: str) -> str:
    return _listed(f"usage: ml-metrics {verb} COMMAND ...\n\n{GROUPS[verb].title}", GROUPS[verb].commands)


def _listed(title: str, commands: Mapping[str, str]) -> str:
    return "\n".join([f"{title}:", *(f"  {name:<11} {summary}" for name, summary in commands.items())])

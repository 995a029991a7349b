"""Open the dashboard in a browser, and print its address. Exit code 1: nothing answers there.

examples:
  ml-metrics open
  ml-metrics open tf-mnist-example-cpu
"""

from __future__ import annotations

import os
import sys
import webbrowser

from ml_metrics.core.deadline import within
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import Client
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_json, add_value
from ml_metrics.ui.cli.chosen_warehouse import known_names
from ml_metrics.ui.cli.output import give
from ml_metrics.ui.dashboard.links import ServerLinks

SECONDS = 10


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test", "TEST", "default: the inbox", nargs="?")
    add_json(parser)


def run(arguments: Arguments) -> int:
    if arguments.test and (known := known_names("TEST")) and arguments.test not in known:
        raise UsageError(f"there is no test {arguments.test!r}{did_you_mean(arguments.test, known)}")
    dashboard = Settings.load().dashboard_url.rstrip("/")
    links = ServerLinks()
    address = f"{dashboard}/{links.test(arguments.test) if arguments.test else 'inbox'}"
    health = f"{dashboard.removesuffix('/ml-metrics')}/api/v2/monitor/health"
    problem = ""
    try:
        within(SECONDS, "Airflow", lambda deadline: Client("Airflow", deadline).send("GET", health, read=True))
    except UndeliveredError as error:
        problem = f"nothing answers there ({error}): `make up` or `airflow standalone` starts Airflow"
    has_screen = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
    opened = not problem and has_screen and not arguments.json and webbrowser.open_new_tab(address)
    document = {"url": address, "answers": not problem, "opened": opened}
    give(arguments, document, [address, *([problem] if problem else [])])
    return 1 if problem else 0

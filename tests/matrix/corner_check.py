"""One whole pass in the environment of a corner: run by its Python, with the installed wheels and no tree.

Usage: python corner_check.py HOME. Every `airflow` command runs in a fork of this process, because importing Airflow
takes longer than most of them. The last line of the output is a JSON object: what was found, and what is wrong.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

SHOWN = ("apache-airflow", "apache-airflow-providers-cncf-kubernetes", "apache-airflow-providers-google")
IMPORTED_ONCE = (
    "airflow.api_fastapi.execution_api.app",
    "airflow.cli.commands.dag_command",
    "airflow.sdk.execution_time.supervisor",
    "kubernetes.client",
    "kubernetes_asyncio.client",
    "ml_metrics.airflow.dags",
)
EXPECTED = {"passes": "pass", "fails": "fail", "deferred": "pass", "hosts": "pass"}
"""The verdict of each test."""
OTHERS = ("ml-metrics-heartbeat", "ml_messages", "py-mnist-example-cpu")
"""Other DAGs that Airflow must find."""
TAIL = 3_000


def main(home: Path) -> None:
    """Check everything, whatever fails, and print the result."""
    from local_kube import LocalCluster

    for module in IMPORTED_ONCE:
        import_module(module)
    found: dict[str, Any] = {"versions": {name: version(name) for name in SHOWN}, "wrong": []}
    for check in (imports, database, dag_files, plugin, runs):
        try:
            found["wrong"] += [f"{check.__name__}: {what}" for what in check(home)]
        except Exception:
            found["wrong"].append(f"{check.__name__}: {traceback.format_exc()[-TAIL:]}")
    LocalCluster(str(home / "ml_metrics" / "cluster")).stop()
    print(json.dumps(found))


def imports(_home: Path) -> list[str]:
    """Import every module of the package; a deprecated import of its own is wrong, too."""
    import ml_metrics

    wrong = []
    folder = str(Path(ml_metrics.__file__).parent)
    for module in pkgutil.walk_packages(ml_metrics.__path__, "ml_metrics."):
        if module.name.endswith("__main__"):
            continue
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                import_module(module.name)
            except Exception as error:
                wrong.append(f"{module.name}: {type(error).__name__}: {error}")
        wrong += [f"{one.filename}: {one.message}" for one in warned if one.filename.startswith(folder)]
    return wrong


def database(home: Path) -> list[str]:
    """Make Airflow's database."""
    return failures(home, "db", "migrate")


def dag_files(home: Path) -> list[str]:
    """Store every DAG, as a DAG processor does, and ask Airflow which files it could not import."""
    wrong = failures(home, "dags", "reserialize")
    code, output = airflow(home, "dags", "list-import-errors", "--output", "json")
    errors = json.loads(output[output.find("[") :] or "[]") if code == 0 else [output]
    stored = {one["dag_id"] for one in listed(home, "dags", "list")}
    missing = {*EXPECTED, *OTHERS} - stored
    return [*wrong, *map(str, errors), *(f"{name} is not stored" for name in sorted(missing))]


def plugin(home: Path) -> list[str]:
    """Ask Airflow for its plugins."""
    names = [one["name"] for one in listed(home, "plugins")]
    return [] if names.count("ml_metrics") == 1 else [f"the plugins are {names}"]


def runs(home: Path) -> list[str]:
    """Run a test of each kind: the rows and the mail must say how each ended."""
    from ml_metrics import open_warehouse

    wrong = []
    for test, expected in EXPECTED.items():
        code, output = airflow(home, "dags", "test", test)
        if (code == 0) != (expected == "pass"):
            wrong.append(f"{test} ended with {code}: {output[-TAIL:]}")
        if (test == "deferred") != ("running trigger in line" in output):
            wrong.append(f"{test} was deferred or not: {output[-TAIL:]}")
        with open_warehouse(f"sqlite:///{home}/ml_metrics/warehouse.db") as warehouse:
            rows = warehouse.runs.newest(test)
            metrics = {row.metric for run in rows for row in warehouse.metrics.of_run(run.uuid)}
        if [row.verdict for row in rows] != [expected]:
            wrong.append(f"{test} has the rows {rows}")
        if not {"loss_final", "total_wall_time"} <= metrics:
            wrong.append(f"{test} has the metrics {sorted(metrics)}")
    mails = [mail.read_text().partition("\n\n")[0] for mail in (home / "ml_metrics" / "outbox").glob("*.eml")]
    if [("fails" in mail) for mail in mails] != [True]:
        wrong.append(f"the mails are {mails}")
    return wrong


def failures(home: Path, *argv: str) -> list[str]:
    """Run an `airflow` command, and return its output if it fails."""
    code, output = airflow(home, *argv)
    return [f"airflow {' '.join(argv)} ended with {code}: {output[-TAIL:]}"] if code else []


def listed(home: Path, *argv: str) -> list[dict[str, Any]]:
    """Run an `airflow` command that prints a JSON list, perhaps after lines of log."""
    code, output = airflow(home, *argv, "--output", "json")
    assert code == 0, output[-TAIL:]
    found: list[dict[str, Any]] = json.loads(output[output.rfind("\n[") + 1 :])
    return found


def airflow(home: Path, *argv: str) -> tuple[int, str]:
    """Run an `airflow` command in a fork; return its exit code and output."""
    log = home / f"{'-'.join(argv[:3])}.log"
    child = os.fork()
    if not child:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os._exit(command(list(argv)))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), log.read_text(errors="replace")


def command(argv: list[str]) -> int:
    """Run an `airflow` command in this process, and return its exit code."""
    from airflow.cli.cli_parser import get_parser

    sys.argv = ["airflow", *argv]
    try:
        arguments = get_parser().parse_args(argv)
        arguments.func(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))

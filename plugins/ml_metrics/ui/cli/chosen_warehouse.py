"""The warehouse that a command reads or writes, and the tests that it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from ml_metrics.core.errors import MlMetricsError, WarehouseError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.judge import HistoryNeeds
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_json, add_value
from ml_metrics.warehouse import Warehouse, open_warehouse, sqlite_address

AIRFLOW = "airflow"
"""The value of `--warehouse` for Airflow's connection. It is no default: importing Airflow takes seconds."""
RECENT_RUNS = 100
"""The runs among whose metrics a suggestion is searched."""
HOW_TO_RECORD = "`ml-metrics run TEST` runs a test once, `ml-metrics demo` runs an example"


class NothingRecordedError(WarehouseError):
    """The default warehouse does not exist yet, because no run was recorded in it."""


def add_warehouse(parser: Parser, *, json: bool = True) -> None:
    """Without `json`, the command declares `--json` in its own place."""
    about = (
        "sqlite:///FILE, postgresql+psycopg://HOST/DATABASE, bigquery://PROJECT/DATASET, or `airflow` for the "
        "connection of Airflow's runs; default: that connection if AIRFLOW_CONN_... defines it, else the SQLite file "
        "of the settings"
    )
    add_value(parser, "--warehouse", "ADDRESS", about)
    about = "one of those that share the warehouse; default: that of the settings"
    add_value(parser, "--deployment", "NAME", about)
    if json:
        add_json(parser)


@contextmanager
def open_chosen(arguments: Arguments, *, create: bool = False) -> Iterator[Warehouse]:
    """Open the warehouse of `--warehouse`.

    Only a command that writes new rows passes `create=True`: a mistyped address must not make an empty warehouse.
    """
    deployment = arguments.deployment
    with _opened(arguments.warehouse, deployment, create=create) as warehouse:
        if deployment and not create:
            recorded = warehouse.runs.deployments()
            if deployment not in recorded:  # an empty list would mislead
                near = did_you_mean(deployment, recorded) or f"; recorded: {', '.join(recorded) or 'none'}"
                raise UsageError(f"no run of a deployment {deployment!r} was recorded{near}")
        yield warehouse


def require_test(warehouse: Warehouse, test: str) -> None:
    """Raise UsageError, with a suggestion, if no run of the test was recorded."""
    if warehouse.runs.latest(test) is None:
        raise unknown_test(test, [one.newest.test for one in warehouse.runs.tests()])


def unknown_test(test: str, recorded: Iterable[str]) -> UsageError:
    near = did_you_mean(test, recorded) or ";"
    return UsageError(f"no run of a test {test!r} was recorded{near} `ml-metrics tests` lists the tests")


def unknown_metric(warehouse: Warehouse, test: str, metric: str) -> UsageError:
    """Raises that of the test if no run of it was recorded."""
    require_test(warehouse, test)
    recent = warehouse.metrics.history(HistoryNeeds(tests=(test,), window=0, recent=RECENT_RUNS, earliest=None))
    near = did_you_mean(metric, {point.metric for point in recent if point.metric}) or ";"
    return UsageError(f"test {test!r} has no value of a metric {metric!r}{near} `ml-metrics history` lists its metrics")


def _opened(address: str | None, deployment: str | None, *, create: bool) -> AbstractContextManager[Warehouse]:
    settings = Settings.load()
    variable = f"AIRFLOW_CONN_{settings.warehouse_conn_id.upper()}"
    if address == AIRFLOW or (address is None and variable in os.environ):
        from ml_metrics.airflow import warehouse

        return warehouse(create=create, deployment=deployment)
    if address is None and not create and not Path(settings.warehouse_file).exists():
        raise NothingRecordedError(f"no run was recorded yet in {settings.warehouse_file}; {HOW_TO_RECORD}")
    return open_warehouse(
        address or sqlite_address(settings.warehouse_file), create=create, deployment=deployment or settings.deployment
    )


def known_names(metavar: str, given: Sequence[str] = ()) -> list[str]:
    """The tests of the test files and of the warehouse, or the metrics of a test, as far as they can be read."""
    from ml_metrics.config.loading import load_tests  # which most commands do not need

    arguments = Arguments(warehouse=None, deployment=None, json=True)
    names: set[str] = set()
    with suppress(MlMetricsError):
        if metavar == "TEST":
            names |= {test.name for test in load_tests(Settings.load().config_root).tests}
            with open_chosen(arguments) as warehouse:
                names |= {one.newest.test for one in warehouse.runs.tests()}
        if metavar == "METRIC" and given:
            needs = HistoryNeeds(tests=(given[0],), window=0, recent=RECENT_RUNS, earliest=None)
            with open_chosen(arguments) as warehouse:
                names |= {point.metric for point in warehouse.metrics.history(needs) if point.metric}
    return sorted(names)

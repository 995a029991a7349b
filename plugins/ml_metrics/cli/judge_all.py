"""`ml-metrics judge --all`: give the imported runs of the warehouse the verdicts that they would have had."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ml_metrics.cli.chosen_warehouse import open_chosen
from ml_metrics.cli.output import counted, print_json, table, warn
from ml_metrics.cli.past_runs import MAX_RUNS
from ml_metrics.config.load import load_test
from ml_metrics.errors import ConfigError
from ml_metrics.judge import history_needs, replay
from ml_metrics.model import Outcome
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from ml_metrics.config.regression import RegressionTestConfig
    from ml_metrics.judge import Judgement, ReplayedRun
    from ml_metrics.warehouse import RunRecord, Warehouse

PAGE_RUNS = 100
"""The runs of one transaction."""


@dataclass(slots=True)
class Judged:
    """The result for the imported runs of one test."""

    test: str
    runs: int
    passed: int = 0
    failed: int = 0
    problem: str = ""
    """Why they are not judged."""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The test as a row of a table."""
        return self.test, str(self.passed + self.failed), str(self.passed), str(self.failed)

    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        counts = {"runs": self.runs, "passed": self.passed, "did_not_pass": self.failed}
        return {"test": self.test, **counts, "problem": self.problem or None}


def judge_all(arguments: argparse.Namespace) -> int:
    """Judge the runs of each test that have no verdict, in the order in which they ended."""
    from ml_metrics.warehouse.imported import not_judged

    with open_chosen(arguments) as warehouse:
        found = not_judged(warehouse)
        chosen = {name: keys for name, keys in found.items() if arguments.test in {"", name}}
        results = [_judge_test(warehouse, name, keys) for name, keys in chosen.items()]
    if arguments.json:
        print_json({"tests": [one.document() for one in results]})
    else:
        _print(results)
    return 2 if any(one.problem for one in results) else 0


def _print(results: list[Judged]) -> None:
    for one in results:
        if one.problem:
            warn(f"{one.test}: {counted(one.runs, 'run')} not judged: {one.problem}")
    rows = [one.row for one in results if not one.problem]
    if rows:
        print(table(("test", "judged", "passed", "did not pass"), rows, right=(1, 2, 3)))
    elif not results:
        print("Every imported run is judged.")


def _judge_test(warehouse: Warehouse, name: str, keys: set[str]) -> Judged:
    result = Judged(name, len(keys))
    try:
        config = load_test(Settings.load().config_root, name).regression_test_config
    except ConfigError as error:
        result.problem = f"its conditions are unknown: {error}"
        return result
    page: list[ReplayedRun] = []
    for one in _replayed(warehouse, name, config):
        if one.run_key not in keys:
            continue
        page.append(one)
        if len(page) == PAGE_RUNS:
            _write(warehouse, page, result)
            page = []
    if page:
        _write(warehouse, page, result)
    return result


def _write(warehouse: Warehouse, page: list[ReplayedRun], result: Judged) -> None:
    """Write some runs at once, the oldest first, so that a killed command continues where it was."""
    from ml_metrics.warehouse.imported import stored_runs

    judgements = {one.run_key: one.judgement for one in page}
    stored = stored_runs(warehouse, result.test, {one.run_key: one.timestamp for one in page})
    warehouse.load_all([_with_verdicts(record, judgements[record.key]) for record in stored])
    result.passed += sum(one.judgement.passed for one in page)
    result.failed += sum(not one.judgement.passed for one in page)
    if sys.stderr.isatty():
        print(f"\r\x1b[K{result.test}: {result.passed + result.failed} of {result.runs}", end="", file=sys.stderr)


def _with_verdicts(record: RunRecord, judgement: Judgement) -> RunRecord:
    from ml_metrics.warehouse.record import with_verdicts

    verdict = str(Outcome.RECORDED) if judgement.outcome is Outcome.RECORDED else None
    return with_verdicts(record, judgement.verdicts, verdict)


def _replayed(warehouse: Warehouse, name: str, config: RegressionTestConfig) -> Iterator[ReplayedRun]:
    """Yield all runs of a test with their verdicts: each is judged by the runs before it."""
    needs = replace(history_needs(config, name), window=0, recent=MAX_RUNS, earliest=None)
    rows = warehouse.metrics.history(needs)
    ends = {row.run_key: row.timestamp for row in rows}
    yield from replay(
        config,
        rows,
        test=name,
        acceptances=warehouse.acceptances.of_history(needs),
        attributes=dict(warehouse.attributes(needs.names, ends, deployments=needs.deployments)),
    ).runs

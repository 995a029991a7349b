"""Comparisons and searches by trials: what each asks, how far it is, and its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ml_metrics.core.errors import FileMissingError, MlMetricsError
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import Run
from ml_metrics.core.settings import Settings
from ml_metrics.core.units import exact
from ml_metrics.judge import State
from ml_metrics.pipeline import experiments
from ml_metrics.store.documents import Documents
from ml_metrics.ui.dashboard.page import NotFoundError, Page

HEAD = ("key", "began", "kind", "test", "asked", "runs", "max_runs", "ended", "failed", "answer")
MOST = 100
"""How many journals are read: in a bucket, each is a request."""


def page_of_experiments(readable: Callable[[Iterable[str]], frozenset[str]]) -> Page:
    """Those of the newest whose DAG and test the user may both read."""
    newest = list(islice(experiments.experiments(Settings.load().storage_root), MOST))
    dags = readable({dag_id for one in newest for dag_id in (one.dag_id, one.test)})
    shown = [one for one in newest if {one.dag_id, one.test} <= dags]
    return Page(
        "compare.html",
        {
            "title": "Compare",
            "view": "experiments",
            "experiments": shown,
            "most": MOST if len(newest) == MOST else None,
        },
        document=lambda: {"experiments": [one.document() for one in shown]},
        table=lambda: [HEAD, *(tuple(one.document().values()) for one in shown)],
    )


KEY = re.compile(r"[0-9a-f-]{36}")
DAGS = frozenset({experiments.COMPARE, experiments.BISECT})
NOT_BEGUN = "This comparison or search has not begun yet, or its journal has been removed."


def key_of_run(dag_id: str, run_id: str) -> str:
    """The key of the comparison or search that a DAG run makes."""
    return Run(dag_id, dag_id, run_id, Settings.load().deployment).key


def last_search_of(test: str) -> str:
    """The key of the search that a broken metric of a test started last; empty if none did, or it is unknown."""
    try:
        folder = Documents.of_deployment(Settings.load().storage_root, experiments.SEARCHES_FOLDER)
        run_id = folder.read(test).get("run_id")
    except (MlMetricsError, OSError):
        return ""
    return key_of_run(experiments.BISECT, run_id) if isinstance(run_id, str) else ""


def journal_of_key(key: str) -> dict[str, Any]:
    """Raises NotFoundError if there is none."""
    if not KEY.fullmatch(key):
        raise NotFoundError(NOT_BEGUN)
    try:
        return Documents.of_deployment(Settings.load().storage_root, experiments.EXPERIMENTS_FOLDER).read(key)
    except FileMissingError as error:
        raise NotFoundError(NOT_BEGUN) from error


def page_of_experiment(key: str, journal: Mapping[str, Any]) -> Page:
    question, result = experiments.question_of(journal), dict(journal.get("result") or {})
    trials = [experiments.TrialRun.from_document(one) for one in journal.get("trials") or ()]
    is_search, test = experiments.dag_of(journal) == experiments.BISECT, experiments.test_of(journal)
    deployment = Settings.load().deployment
    document = dict(result.get("document") or {})
    keys = [Run(test, test, experiments.run_id_of(key, number), deployment).key for number in range(len(trials))]
    return Page(
        "experiment.html",
        {
            "title": "Search" if is_search else "Comparison",
            "test": test,
            "result": result,
            "question": list(_asked(question)),
            "metrics": list((document.get("metrics") or {}).items()),
            "found": document if is_search else None,
            "versions": _versions(trials, question),
            "trials": list(zip(trials, keys, strict=True)),
            "most_runs": question.get("max_runs"),
            "measured": State.MEASURED,
        },
        document=lambda: {"key": key, "question": question, "result": result, "trials": journal.get("trials") or []},
        table=lambda: _rows_of_trials(trials, keys),
    )


def _asked(question: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Without the candidates, which the trials name."""
    for name in ("parameter", "metric", "metrics", "base", "candidate", "effect", "max_runs"):
        value = question.get(name)
        if value not in (None, "", []):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield name.replace("max_runs", "runs at most"), f"{shown} %" if name == "effect" else shown
    if candidates := question.get("candidates"):
        yield "candidates", f"{len(candidates):,}, from {candidates[0]} to {candidates[-1]}"


def _versions(trials: Sequence[experiments.TrialRun], question: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The values of the asked metric of each version, in the order of the candidates."""
    order = {version: place for place, version in enumerate(question.get("candidates") or ())}
    metrics = [question["metric"]] if question.get("metric") else list(question.get("metrics") or ())
    rows: dict[str, list[str]] = {}
    for trial in trials:
        values = [trial.values[metric] for metric in metrics[:1] if metric in trial.values]
        rows.setdefault(trial.version, []).extend(exact(values, kind_of(metrics[0]).unit) if values else ())
        if trial.state is not State.MEASURED:
            rows[trial.version].append(trial.reason or trial.state.value)
    return sorted(rows.items(), key=lambda row: order.get(row[0], 0))


def _rows_of_trials(trials: Sequence[experiments.TrialRun], keys: Sequence[str]) -> Iterator[Sequence[Any]]:
    yield ("run", "version", "state", "host", "reason", "metric", "value")
    for trial, key in zip(trials, keys, strict=True):
        for metric, value in trial.values.items() or [("", None)]:
            yield (key, trial.version, trial.state.value, trial.host, trial.reason, metric, value)

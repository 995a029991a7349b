"""The search that a broken metric starts by itself: one for each change, and one at a time for a test and a cause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError, FileMissingError, UnreadableInputError
from ml_metrics.core.model import Outcome, Run, Severity
from ml_metrics.core.values import short_hash
from ml_metrics.pipeline.experiments.run_ids import BISECT
from ml_metrics.pipeline.experiments.versions import Source, Span, good_run, versions_between
from ml_metrics.store.documents import Documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Verdict
    from ml_metrics.warehouse import Warehouse


SEARCHES_FOLDER = "searches"
"""The folder of documents that state which search was started last for a test, and for a pair of versions."""
OWN = "regression__"
"""How the ids of their runs begin."""


@dataclass(frozen=True, slots=True)
class OwnSearch:
    """A search to start. Its run id is the same for every run that is broken by the same change."""

    run_id: str
    form: dict[str, Any]
    topics: tuple[str, ...]
    """The test, and the pair of versions that other tests may have, too."""
    note: str


def own_search(test: TestDefinition, run_key: str, verdicts: Sequence[Verdict], warehouse: Warehouse) -> OwnSearch:
    """Raises ConfigError with the reason if it starts none."""
    failed = [one for one in verdicts if one.outcome is Outcome.FAIL and one.severity is not Severity.WARN]
    if test.on_regression is None or not failed:
        raise ConfigError("no metric is out of bounds")
    wanted, metric = test.on_regression.bisect, failed[0].metric
    span = Span(test.name, wanted.parameter, metric, bad=run_key)
    good = good_run(warehouse, span)
    versions = versions_between(warehouse, replace(span, good=good)).versions
    form = {
        "test": test.name,
        "metric": metric,
        "source": Source.HISTORY,
        "good": good,
        "bad": run_key,
        "parameter": wanted.parameter,
        "max_runs": wanted.max_runs,
        "effect": wanted.effect,
    }
    pair = short_hash(f"{wanted.parameter}\n{versions[0]}\n{versions[-1]}")
    note = f"{test.name}: {metric} is out of bounds since {versions[0]}"
    return OwnSearch(f"{OWN}{test.name}__{good}", form, (test.name, f"versions-{pair}"), note)


def is_own(run_id: str) -> bool:
    """Whether a run of the search was started by a broken metric."""
    return run_id.startswith(OWN)


def running_search(storage_root: str, search: OwnSearch, is_active: Callable[[str], bool]) -> str | None:
    """The run id of another search for the same test or the same versions that has not ended, or None."""
    found = (_run_id_of(storage_root, topic) for topic in search.topics)
    return next((one for one in found if one and one != search.run_id and is_active(one)), None)


def remember(storage_root: str, search: OwnSearch) -> None:
    documents = Documents.of_deployment(storage_root, SEARCHES_FOLDER)
    for topic in search.topics:
        documents.write(topic, {"run_id": search.run_id})


def recorded(storage_root: str, deployment: str) -> dict[str, list[str]]:
    """The topics of each search that `remember` has recorded, by the run key of the search."""
    found: dict[str, list[str]] = {}
    for topic in Documents.of_deployment(storage_root, SEARCHES_FOLDER).names():
        if key := _key_of(storage_root, topic, deployment):
            found.setdefault(key, []).append(topic)
    return found


def forget(storage_root: str, key: str, topics: Iterable[str], deployment: str) -> None:
    """Remove what is recorded about a search, unless a later one of the same topic has been recorded meanwhile."""
    for topic in topics:
        if _key_of(storage_root, topic, deployment) == key:
            Documents.of_deployment(storage_root, SEARCHES_FOLDER).remove(topic)


def _key_of(storage_root: str, topic: str, deployment: str) -> str:
    run_id = _run_id_of(storage_root, topic)
    return Run(BISECT, BISECT, run_id, deployment).key if run_id else ""


def _run_id_of(storage_root: str, topic: str) -> str:
    try:
        return str(Documents.of_deployment(storage_root, SEARCHES_FOLDER).read(topic).get("run_id") or "")
    except (FileMissingError, UnreadableInputError):
        return ""

"""Perfherder's answers to `api/performance/summary/?...&all_data=true`: the values of each signature, push by push."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Metric
from ml_metrics.measure.histories.history import MOST_BYTES, History, PastRun, Reading, moment_of
from ml_metrics.measure.lines import parsed_document
from ml_metrics.measure.readers.format import value_of
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.store import storage


SIGNATURE = {"signature_id", "suite", "platform", "lower_is_better", "data"}


def claims(file: Beginning) -> bool:
    document = file.document
    if file.problem and b'"signature_id"' in file.head:  # too large to be looked at as a whole
        return b'"lower_is_better"' in file.head
    return isinstance(document, list) and bool(document) and all(map(_is_signature, document))


def read(files: Sequence[storage.File], reading: Reading) -> Iterator[PastRun]:
    """Yield a run for each job: its suite and subtests on one platform. Several values of one signature are repeats."""
    jobs: dict[tuple[str, str], _Job] = {}
    for file in files:
        document = parsed_document(file.read(MOST_BYTES), reading.limits.json_nesting, 8 * MOST_BYTES)
        for number, signature in enumerate(document):
            where = f"{file.path}: signature {number + 1}"
            if not _is_signature(signature):
                raise UnreadableInputError(
                    f"{where}: has no {', '.join(sorted(SIGNATURE))}; query it with all_data=true"
                )
            for one in signature["data"]:
                _add(jobs, signature, one, where)
    for (series, key), job in jobs.items():
        yield PastRun(key, series, job.at, tuple(job.metrics()), job.where, metadata=job.facts)


@dataclass(slots=True)
class _Job:
    """What one job measured."""

    where: str
    at: datetime
    facts: dict[str, str]
    values: dict[str, list[float]] = field(default_factory=dict)
    signatures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def metrics(self) -> Iterator[Metric]:
        """Yield the median of each metric's values."""
        for name, values in self.values.items():
            finite = [value for value in values if math.isfinite(value)]
            value = median(finite) if finite else math.nan
            about = self.signatures[name]
            yield Metric(
                name,
                value,
                name,
                "median",
                points=len(values),
                non_finite=len(values) - len(finite),
                unit=str(about.get("measurement_unit") or ""),
                better=LOWER if about["lower_is_better"] else HIGHER,
            )


def _is_signature(one: Any) -> bool:
    return isinstance(one, dict) and one.keys() >= SIGNATURE and isinstance(one["data"], list)


def _add(jobs: dict[tuple[str, str], _Job], signature: dict[str, Any], one: Any, where: str) -> None:
    value = value_of(one.get("value")) if isinstance(one, dict) else None
    if value is None or not {"job_id", "push_timestamp"} <= one.keys():
        raise UnreadableInputError(f"{where}: a value has no job_id, push_timestamp or number")
    key = str(one["job_id"] or f"push {one.get('push_id')}")
    at = moment_of(one["push_timestamp"], where)
    facts = {"perfherder/revision": str(one.get("revision") or ""), "perfherder/push": str(one.get("push_id") or "")}
    job = jobs.setdefault((_series_of(signature), key), _Job(where, at, {k: v for k, v in facts.items() if v}))
    name = str(signature.get("test") or signature["suite"])
    other = job.signatures.setdefault(name, signature)
    if other["signature_id"] != signature["signature_id"]:
        ids = f"{other['signature_id']} and {signature['signature_id']}"
        raise UnreadableInputError(
            f"{where}: the signatures {ids} are both {quoted(name)} of job {key}; query one of them"
        )
    job.at = max(job.at, at)
    job.values.setdefault(name, []).append(value)


def _series_of(signature: dict[str, Any]) -> str:
    """The suite with its options and the platform. Perfherder's name of a signature also has the subtest."""
    test, name = signature.get("test"), str(signature.get("name") or signature["suite"])
    if test and test != signature["suite"]:
        name = name.replace(f" {test}", "", 1)
    parts = (signature.get("repository_name"), name, signature.get("application"), signature["platform"])
    words = " ".join(dict.fromkeys(str(one) for one in parts if one))
    return " ".join(words.split())


HISTORY = History("perfherder", claims, read)

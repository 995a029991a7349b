"""Folders of result files, one for each run: asv, pytest-benchmark and Google Benchmark."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.measure.histories.history import MOST_BYTES, History, PastRun, Reading, metrics_of, moment_of
from ml_metrics.measure.lines import parsed_document
from ml_metrics.measure.readers.benchmarks import ASV, GOOGLE, PYTEST
from ml_metrics.measure.readers.registry import read_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ml_metrics.measure.readers.format import Format
    from ml_metrics.store import storage

Identity = tuple[str, list[Any], Any]
"""What identifies a run, the names that make its series, and its time."""


def _asv(document: Any) -> Identity:
    names = [document["params"]["machine"], document.get("env_name")]
    return str(document["commit_hash"]), names, document.get("date")


def _pytest_benchmark(document: Any) -> Identity:
    """The series is named as the folders of pytest-benchmark are."""
    machine, time = document["machine_info"], document.get("datetime")
    version = ".".join(str(machine.get("python_version", "")).split(".")[:2])
    names = [machine.get("system"), machine.get("python_implementation"), version, machine.get("machine")]
    commit = document["commit_info"].get("id") if isinstance(document["commit_info"], dict) else ""
    return f"{commit} {time}", ["-".join(str(one) for one in names if one)], time


def _google_benchmark(document: Any) -> Identity:
    context = document["context"]
    return str(context.get("date")), [context.get("host_name")], context.get("date")


def _read(
    files: Sequence[storage.File], reading: Reading, format_: Format, identity_of: Callable[[Any], Identity]
) -> Iterator[PastRun]:
    limits = reading.limits
    for file in files:
        document = parsed_document(file.read(limits.json_bytes), limits.json_nesting, 8 * MOST_BYTES)
        try:
            key, names, time = identity_of(document)
        except (AttributeError, KeyError, TypeError) as error:
            raise UnreadableInputError(f"{file.path}: is no whole file of {format_.name}: {error!r}") from error
        found = read_files(format_, [file], Allowance(limits))
        metrics = metrics_of(format_.name, found, limits, file.path)
        series, metadata = " ".join(str(one) for one in names if one), dict(found.metadata)
        yield PastRun(key, series, moment_of(time, file.path), metrics, file.path, metadata=metadata)


HISTORIES = tuple(
    History(one.name, one.claims, partial(_read, format_=one, identity_of=identity_of), one_each=True)
    for one, identity_of in (
        (ASV, _asv),
        (PYTEST, _pytest_benchmark),
        (GOOGLE, _google_benchmark),
    )
)

"""All kinds of histories, and which of them the files of a source are of."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import msgspec

from ml_metrics.config.naming import MAX_NAME, as_name, check_name
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.core.values import short_hash
from ml_metrics.measure.histories import csv as tables
from ml_metrics.measure.histories import hud, mlflow, perfherder, result_files, wandb
from ml_metrics.measure.histories.history import History, PastRun, Reading
from ml_metrics.measure.readers.format import Beginning
from ml_metrics.store import storage

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence


HISTORIES: tuple[History, ...] = (
    *result_files.HISTORIES,
    hud.HISTORY,
    mlflow.HISTORY,
    wandb.HISTORY,
    perfherder.HISTORY,
    tables.HISTORY,
)
BY_NAME = {one.name: one for one in HISTORIES}


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a source, by kind of history."""

    files: dict[str, list[storage.File]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What is wrong with files that cannot be read as what they seem to be."""


def find(place: str, reading: Reading, name: str | None = None) -> Source:
    """Find the histories in a file or folder. A file whose kind is stated, by `name` or a mapping, is not looked at.

    Raises:
        UnreadableInputError: There is no such place, or no history in it.
    """
    is_file = storage.exists(place)
    files = [storage.named_file(place)] if is_file else storage.list_files(place)
    if not files:
        raise UnreadableInputError(f"{place}: there is no such file, and no folder with files")
    source = Source()
    for file in files:
        is_table = reading.mapping is not None and (is_file or file.name.endswith(".csv"))
        stated = tables.HISTORY.name if is_table else name if is_file else None
        kind, problem = (BY_NAME[stated], "") if stated else _kind_of(file, reading, name)
        if problem:
            source.problems.append(problem)
        elif kind is not None:
            source.files.setdefault(kind.name, []).append(file)
    if not source.files and not source.problems:
        raise UnreadableInputError(
            f"{place}: no file in it is of a known history ({', '.join(BY_NAME)}); a CSV file with other columns needs "
            "--mapping"
        )
    return source


def runs_of(source: Source, reading: Reading, problems: list[str]) -> Iterator[tuple[str, PastRun]]:
    """Yield each run with the name of its history, and add why files cannot be read to `problems`.

    Raises:
        UnreadableInputError: Two runs of one series have one key. One of them would be lost.
    """
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for name, files in source.files.items():
        seen: dict[tuple[str, str], str] = {}
        for run in _readable(BY_NAME[name], files, reading, problems):
            if run.at > tomorrow:  # a typing error, which would be the newest run for years
                reading.leave_out("ended in the future")
                continue
            first = seen.setdefault((run.series, run.key), run.where)
            if first != run.where:
                raise UnreadableInputError(f"{run.where}: is the same run as {first} ({run.key}); remove one of them")
            yield name, run


def _readable(kind: History, files: list[storage.File], reading: Reading, problems: list[str]) -> Iterator[PastRun]:
    for group in [[file] for file in files] if kind.one_each else [files]:
        try:
            yield from kind.read(group, reading)
        except (UnreadableInputError, StorageError) as error:
            text = str(error)
            problems.append(text if any(file.path in text for file in group) else f"{group[0].path}: {text}")


def _kind_of(file: storage.File, reading: Reading, name: str | None) -> tuple[History | None, str]:
    """The one history that claims a file, or why it cannot be read as what it seems to be."""
    kinds = HISTORIES if name is None else (BY_NAME[name],)
    try:
        beginning = Beginning.of(file, Allowance(reading.limits))
        claiming = [one for one in kinds if one.claims(beginning)]
    except (StorageError, OSError) as error:
        return None, f"{file.path}: cannot be read: {error}"
    if len(claiming) > 1:
        names = " and ".join(one.name for one in claiming)
        return None, f"{file.path}: looks like {names}; import it alone, with --from {claiming[0].name}"
    if claiming:
        return claiming[0], ""
    if file.name.endswith(".json"):
        if not beginning.head.strip():
            return None, f"{file.path}: is empty; remove it, or write it again"
        if beginning.problem and not beginning.lines:
            return None, f"{file.path}: {beginning.problem}; the file may be cut off: remove it, or write it again"
    return None, ""


DIGEST = 8


def test_names(series: Sequence[str], test: str | None) -> dict[str, str]:
    """The name of a test for each series: `test`, if there is one series, else with the series after it.

    Raises:
        ValueError: A series has no name, or two would have the same.
    """
    if test is not None:
        check_name(test)
    if test is not None and len(series) == 1:
        return {series[0]: test}
    found: dict[str, str] = {}
    for one in series:
        name = "-".join(part for part in (test or "", as_name(one)) if part)
        if not as_name(one):
            raise ValueError("the history does not name what it measured; name the test with --test NAME")
        if len(name) > MAX_NAME:
            name = f"{name[: MAX_NAME - DIGEST - 1].rstrip('-')}-{short_hash(one)[:DIGEST]}"
        other = next((known for known, taken in found.items() if taken == name), None)
        if other is not None:
            raise ValueError(
                f"the series {other!r} and {one!r} would both be the test {name}; import one with --series"
            )
        found[one] = check_name(name)
    return found


@dataclass(slots=True)
class Summary:
    """What was read of one series."""

    first: datetime
    last: datetime
    runs: int = 0
    metrics: int = 0

    def document(self) -> dict[str, Any]:
        span = {"from": self.first.isoformat(), "to": self.last.isoformat()}
        return {"runs": self.runs, "metrics": self.metrics, **span}


class Spool(AbstractContextManager["Spool"]):
    """A temporary file of runs, and what is in it."""

    def __init__(self) -> None:
        self.series: dict[str, Summary] = {}
        self.left_out: dict[str, int] = {}
        """By reason: how many runs are no part of the history."""
        self._file = TemporaryFile(prefix="ml-metrics-import-")  # noqa: SIM115  (closed with the spool)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(tuple[str, PastRun]).decode

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, kind: str, run: PastRun) -> None:
        data = self._encode((kind, run))
        self._file.write(len(data).to_bytes(8, "little") + data)
        known = self.series.setdefault(run.series, Summary(run.at, run.at))
        known.first, known.last = min(known.first, run.at), max(known.last, run.at)
        known.runs += 1
        known.metrics += len(run.metrics)

    def count(self, series: Container[str]) -> int:
        return sum(one.runs for name, one in self.series.items() if name in series)

    def __iter__(self) -> Iterator[tuple[str, PastRun]]:
        self._file.seek(0)
        while size := self._file.read(8):
            yield self._decode(self._file.read(int.from_bytes(size, "little")))

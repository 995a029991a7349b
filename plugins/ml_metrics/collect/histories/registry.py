"""All kinds of histories, and which of them the files of a source are of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.collect.formats.beginning import Beginning
from ml_metrics.collect.histories import hud, mlflow, perfherder, result_files, tables, wandb
from ml_metrics.collect.histories.history import History, PastRun, Reading, at_once
from ml_metrics.errors import StorageError, UnreadableInputError
from ml_metrics.limits import Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    others: int = 0
    """Files that are of no history."""


def find(place: str, reading: Reading, name: str | None = None) -> Source:
    """Find the histories in a file or folder. With `name`, of a file alone, it is not looked for.

    Raises:
        UnreadableInputError: There is no such place, or no history in it.
    """
    is_file = storage.exists(place)
    files = [storage.named_file(place)] if is_file else storage.list_files(place)
    if not files:
        raise UnreadableInputError(f"{place}: there is no such file, and no folder with files")
    source = Source()
    others = 0
    for file in files:
        stated = name or (tables.HISTORY.name if reading.mapping is not None and file.name.endswith(".csv") else None)
        if stated is not None and (is_file or stated == tables.HISTORY.name):
            source.files.setdefault(stated, []).append(file)
            continue
        kind, problem = _kind_of(file, reading, HISTORIES if name is None else (BY_NAME[name],))
        if problem:
            source.problems.append(problem)
        elif kind is None:
            others += 1
        else:
            source.files.setdefault(kind.name, []).append(file)
    if not source.files and not source.problems:
        raise UnreadableInputError(
            f"{place}: no file in it is of a known history ({', '.join(BY_NAME)}); a CSV file with other columns needs "
            "--mapping"
        )
    return Source(source.files, source.problems, others)


def runs_of(source: Source, reading: Reading, on_problem: list[str] | None = None) -> Iterator[tuple[str, PastRun]]:
    """Yield each run with the name of its history. A file that cannot be read is an error, or kept in `on_problem`."""
    for name, files in source.files.items():
        kind = BY_NAME[name]
        # of these, each file is a run: one that cannot be read costs no other
        groups = [[file] for file in files] if name in EACH else [files]
        yield from at_once_named(name, kind, groups, reading, on_problem)


EACH = frozenset({*(one.name for one in result_files.HISTORIES), wandb.HISTORY.name})


def at_once_named(
    name: str, kind: History, groups: list[list[storage.File]], reading: Reading, on_problem: list[str] | None
) -> Iterator[tuple[str, PastRun]]:
    """Yield the runs of one kind of history."""

    def runs() -> Iterator[PastRun]:
        for group in groups:
            try:
                yield from kind.read(group, reading)
            except (UnreadableInputError, StorageError) as error:
                problem = _named(error, group)
                if on_problem is None:
                    raise UnreadableInputError(problem) from error
                on_problem.append(problem)

    for run in at_once(runs()):
        yield name, run


def _named(error: Exception, group: list[storage.File]) -> str:
    text = str(error)
    return text if any(file.path in text for file in group) else f"{group[0].path}: {text}"


def _kind_of(file: storage.File, reading: Reading, kinds: tuple[History, ...]) -> tuple[History | None, str]:
    """Return the one history that claims a file, or why it cannot be read as what it seems to be."""
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

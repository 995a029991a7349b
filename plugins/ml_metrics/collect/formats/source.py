"""The source `formats`: files that other programs write, recognised by their content."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.collect.formats.readings import Readings
from ml_metrics.collect.formats.registry import FORMATS, recognise
from ml_metrics.collect.source import Found, Request
from ml_metrics.collect.texts import shortened_list
from ml_metrics.collect.untrusted_values import quoted
from ml_metrics.config.patterns import matches_file
from ml_metrics.errors import StorageError, UnreadableInputError
from ml_metrics.limits import LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ml_metrics import storage
    from ml_metrics.collect.formats.format import Format
    from ml_metrics.collect.formats.registry import Recognised
    from ml_metrics.config.collection import Sources
    from ml_metrics.limits import Allowance
    from ml_metrics.series import Series

MAX_FILES_OPENED = 1_000
"""How many files of a run are opened to recognise them. A workload may write any number of texts."""
BY_NAME = {one.name: one for one in FORMATS}


@dataclass(frozen=True, slots=True)
class Sorted:
    """The files of a run, by format."""

    by_format: dict[str, list[storage.File]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, file: storage.File, known: Recognised) -> None:
        """Add a file that is recognised, or why it is not read."""
        if known.warning:
            self.warnings.append(known.warning)
        if known.format is not None:
            self.by_format.setdefault(known.format.name, []).append(file)

    @property
    def names(self) -> frozenset[str]:
        """The names of all files that a format reads."""
        return frozenset(file.name for files in self.by_format.values() for file in files)


def sort(files: Iterable[storage.File], sources: Sources, allowance: Allowance) -> Sorted:
    """Find the format of each file: the one that the test file states, or the only one that claims it.

    A file that the test file gives to another source stays with that one.
    """
    found, options = Sorted(), sources.formats
    unknown = []
    for file in files if options.enabled else ():
        stated = [name for name, patterns in options.stated.items() if matches_file(patterns, file.name)]
        if len(stated) > 1:
            found.warnings.append(f"{file.name}: not read: sources.formats states {' and '.join(stated)} for it")
        elif stated:
            found.by_format.setdefault(stated[0], []).append(file)
        elif matches_file(options.files, file.name) and not _is_given_to_another(file, sources):
            unknown.append(file)
    with suppress(LimitReachedError):
        for file in unknown[:MAX_FILES_OPENED]:
            found.add(file, recognise(file, allowance))
    if len(unknown) > MAX_FILES_OPENED:
        found.warnings.append(
            f"{len(unknown) - MAX_FILES_OPENED:,} files were not looked at for a known format: at most "
            f"{MAX_FILES_OPENED:,} are. Narrow sources.formats.files"
        )
    return found


def read(request: Request) -> Found:
    """Read the files of each format."""
    options, found = request.config.sources.formats, request.sorted or Sorted()
    results = {
        one.name: read_files(one, found.by_format[one.name], request.allowance, options.prefix, options.named_by)
        for one in FORMATS
        if one.name in found.by_format
    }
    series, twice = _first_of_each(results)
    return Found(
        series,
        (),
        [*found.warnings, *(warning for one in results.values() for warning in one.warnings), *twice],
        len(found.names),
        _joined(one.metadata for one in results.values()),
    )


def _first_of_each(results: Mapping[str, Found]) -> tuple[list[Series], list[str]]:
    """Return the series without those that an earlier format has, too: vLLM writes its results in two formats."""
    format_of: dict[tuple[str, str], str] = {}
    kept: list[Series] = []
    twice: dict[str, list[str]] = {}
    for name, found in results.items():
        for one in found.series:
            first = format_of.setdefault((one.run, one.tag), name)
            if first == name:
                kept.append(one)
            else:
                twice.setdefault(f"{first} and {name}", []).append(quoted(one.tag))
    return kept, [
        f"{shortened_list(tags)} in files of {names}: those of {names.partition(' ')[0]} count"
        for names, tags in twice.items()
    ]


def read_files(
    format_: Format,
    files: Iterable[storage.File],
    allowance: Allowance,
    prefix: str = "",
    named_by: tuple[str, ...] = (),
) -> Found:
    """Read files of one format. A file that cannot be read causes a warning, and the others count."""
    readings = Readings(allowance, prefix, named_by)
    count = 0
    for file in files:
        readings.begin(file)
        count += 1
        try:
            format_.read(readings)
        except LimitReachedError:
            break
        except (UnreadableInputError, StorageError, OSError) as error:
            readings.lines.warn(f"could not be read as {format_.name}: {error}")
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            readings.lines.warn(f"is no whole file of {format_.name}: {type(error).__name__}: {error}"[:300])
        readings.end()
    return Found(list(readings.series()), (), readings.all_warnings(), count, readings.all_metadata())


def _is_given_to_another(file: storage.File, sources: Sources) -> bool:
    """Whether the test file names this file, or the step of its lines, for another source."""
    return any(
        one.enabled and {"files", "step"} & one.model_fields_set and matches_file(one.files, file.name)
        for one in (sources.json_lines, sources.csv)
    )


def _joined(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {key: value for part in parts for key, value in part.items()}

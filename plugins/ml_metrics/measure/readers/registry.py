"""All formats, and which of them a file is of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.measure.readers import (
    asv,
    bencher,
    dllogger,
    documents,
    github_action_benchmark,
    google_benchmark,
    hardware_sweeps,
    hud,
    hyperfine,
    mlflow,
    mllog,
    openmetrics,
    programs,
    pytest_benchmark,
    serving_sweeps,
    vllm_serve,
    wandb,
)
from ml_metrics.measure.readers.format import Beginning, Readings, Recognised
from ml_metrics.measure.source import Found, Request, Sorted
from ml_metrics.measure.sweeps import sweeps_of
from ml_metrics.measure.text import quoted, shortened_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.config.collection import Sources
    from ml_metrics.core.limits import Allowance
    from ml_metrics.core.model import Series
    from ml_metrics.measure.readers.format import Format
    from ml_metrics.store import storage


OF_CURVES = (*serving_sweeps.FORMATS, *hardware_sweeps.FORMATS)
FORMATS: tuple[Format, ...] = (
    *(
        module.FORMAT
        for module in (
            pytest_benchmark,
            google_benchmark,
            hyperfine,
            asv,
            github_action_benchmark,
            bencher,
            vllm_serve,
            hud,
            mllog,
            dllogger,
            mlflow,
            wandb,
            openmetrics,
        )
    ),
    mlflow.DATABASE,
    *programs.FORMATS,
    *OF_CURVES,
)
OF_OTHER_SOURCES = (".jsonl", ".csv")
"""Of these, only curves are looked for: a source of their own reads their points."""


def recognise(file: storage.File, allowance: Allowance, formats: Sequence[Format] = FORMATS) -> Recognised:
    """Return the one format that claims a file. Several are an error: which of them is right is not guessed.

    Raises:
        LimitReachedError: Nothing more may be read.
    """
    try:
        beginning = Beginning.of(file, allowance)
        possible = [one for one in formats if all(mark in beginning.head for mark in one.marks)]
        claiming = [one for one in possible if one.claims(beginning)]
    except (StorageError, OSError) as error:
        return Recognised(warning=f"{file.name}: cannot be read: {error}")
    if len(claiming) > 1:
        names = " and ".join(one.name for one in claiming)
        return Recognised(
            warning=f"{file.name}: not read: it looks like {names}. State which one it is: "
            f"sources.formats.stated: {{{claiming[0].name}: [{file.name}]}}"
        )
    if claiming:
        return Recognised(claiming[0])
    if beginning.problem and (likely := [one for one in possible if len(one.marks) > 1]):
        names = " or ".join(one.name for one in likely)
        return Recognised(warning=f"{file.name}: not read: it may be of the format {names}, but {beginning.problem}")
    return Recognised()


MAX_FILES_OPENED = 1_000
"""How many files of a run are opened to recognise them. A workload may write any number of texts."""
BY_NAME = {one.name: one for one in FORMATS}


def sort(files: Iterable[storage.File], sources: Sources, allowance: Allowance) -> Sorted:
    """Find the format of each file: the one that the test file states, or the only one that claims it.

    A file that the test file gives to another source stays with that one.
    """
    found, options = Sorted(), sources.formats
    unknown = []
    for file in files:
        if any(matches_file(one.files, file.name) for one in sources.documents):
            found.by_format.setdefault(documents.NAME, []).append(file)
            continue
        if not options.enabled:
            continue
        stated = [name for name, patterns in options.stated.items() if matches_file(patterns, file.name)]
        if len(stated) > 1:
            found.warnings.append(f"{file.name}: not read: sources.formats states {' and '.join(stated)} for it")
        elif stated:
            found.by_format.setdefault(stated[0], []).append(file)
        elif matches_file(options.files, file.name) and not _is_given_to_another(file, sources):
            unknown.append(file)
    with suppress(LimitReachedError):
        for file in unknown[:MAX_FILES_OPENED]:
            is_shared = file.name.endswith(OF_OTHER_SOURCES)
            found.add(file, recognise(file, allowance, OF_CURVES if is_shared else FORMATS))
            found.shared.update([file.name] if is_shared else [])
    if len(unknown) > MAX_FILES_OPENED:
        found.warnings.append(
            f"{len(unknown) - MAX_FILES_OPENED:,} files were not looked at for a known format: at most "
            f"{MAX_FILES_OPENED:,} are. Narrow sources.formats.files"
        )
    return found


def read(request: Request) -> Found:
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
        sum(one.files for one in results.values()),
        _joined(one.metadata for one in results.values()),
        sweeps=[sweep for one in results.values() for sweep in one.sweeps],
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
        readings.end(expected=True)
    series = list(readings.series())
    sweeps = sweeps_of(readings.measurements, format_.axis, named_by, of_one=not series)
    if prefix:
        sweeps = [replace(one, name=f"{prefix}{one.name}") for one in sweeps]
    metadata = readings.all_metadata()
    return Found(series, (), readings.all_warnings(), count, metadata, sweeps=sweeps)


def _is_given_to_another(file: storage.File, sources: Sources) -> bool:
    """Whether the test file names this file, or the step of its lines, for another source."""
    if any(matches_file(one.files, file.name) for one in sources.curves.values()):
        return True
    return any(
        one.enabled and {"files", "step"} & one.model_fields_set and matches_file(one.files, file.name)
        for one in (sources.json_lines, sources.csv)
    )


def _joined(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {key: value for part in parts for key, value in part.items()}

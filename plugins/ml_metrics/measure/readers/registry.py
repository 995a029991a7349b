"""All formats, and which of them a file is of."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import StorageError
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.measure.readers import (
    benchmarks,
    dllogger,
    hardware_sweeps,
    hud,
    mlflow,
    mllog,
    openmetrics,
    programs,
    serving_sweeps,
    wandb,
)
from ml_metrics.measure.readers.documents import NAME as DOCUMENTS
from ml_metrics.measure.readers.format import Beginning
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.source import Found, Request, together
from ml_metrics.measure.sweeps import sweeps_of
from ml_metrics.measure.text import quoted, shortened_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ml_metrics.config.collection import Sources
    from ml_metrics.core.limits import Allowance
    from ml_metrics.core.model import Series
    from ml_metrics.measure.readers.format import Format
    from ml_metrics.store import storage


OF_CURVES = (*serving_sweeps.FORMATS, *hardware_sweeps.FORMATS)
FORMATS: tuple[Format, ...] = (
    *benchmarks.FORMATS,
    serving_sweeps.VLLM,
    hud.FORMAT,
    mllog.FORMAT,
    dllogger.FORMAT,
    mlflow.FORMAT,
    wandb.FORMAT,
    openmetrics.FORMAT,
    mlflow.DATABASE,
    *programs.FORMATS,
    *OF_CURVES,
)
BY_NAME = {one.name: one for one in FORMATS}
OF_OTHER_SOURCES = (".jsonl", ".csv")
"""Of these, only curves are looked for: a source of their own reads their points."""
MAX_FILES_OPENED = 1_000
"""How many files of a run are opened to recognise them. A workload may write any number of texts."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """The files of a run, by format."""

    by_format: defaultdict[str, list[storage.File]] = field(default_factory=lambda: defaultdict(list))
    warnings: list[str] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)
    """Files of which a format reads the curves, and another source the points."""

    @property
    def of_curves(self) -> tuple[str, ...]:
        """How the warning begins that another source finds no points in a file of curves."""
        claimed = {file.name for files in self.by_format.values() for file in files}
        return tuple(f"{name}: not read: " for name in claimed & self.shared)

    @property
    def names(self) -> frozenset[str]:
        """The files that no other source reads."""
        return frozenset(file.name for files in self.by_format.values() for file in files) - self.shared


def recognise(
    file: storage.File, allowance: Allowance, formats: Sequence[Format] = FORMATS
) -> tuple[Format | None, str]:
    """The one format that claims a file, and a warning. Several are an error: which of them is right is not guessed.

    Raises:
        LimitReachedError: Nothing more may be read.
    """
    try:
        beginning = Beginning.of(file, allowance)
        claiming = [one for one in formats if one.claims(beginning)]
    except (StorageError, OSError) as error:
        return None, f"{file.name}: cannot be read: {error}"
    if len(claiming) > 1:
        names = " and ".join(one.name for one in claiming)
        return None, (
            f"{file.name}: not read: it looks like {names}. State which one it is: "
            f"sources.formats.stated: {{{claiming[0].name}: [{file.name}]}}"
        )
    if claiming:
        return claiming[0], ""
    likely = [one.name for one in formats if len(one.marks) > 1 and one.may_claim(beginning)]
    if beginning.problem and likely:
        names = " or ".join(likely)
        return None, f"{file.name}: not read: it may be of the format {names}, but {beginning.problem}"
    return None, ""


def sort(files: Iterable[storage.File], sources: Sources, allowance: Allowance) -> Sorted:
    """Find the format of each file: the one that the test file states, or the only one that claims it.

    A file that the test file gives to another source stays with that one.
    """
    found, options = Sorted(), sources.formats
    unknown = []
    for file in files:
        if any(matches_file(one.files, file.name) for one in sources.documents):
            found.by_format[DOCUMENTS].append(file)
            continue
        if not options.enabled:
            continue
        stated = [name for name, patterns in options.stated.items() if matches_file(patterns, file.name)]
        if len(stated) > 1:
            found.warnings.append(f"{file.name}: not read: sources.formats states {' and '.join(stated)} for it")
        elif stated:
            found.by_format[stated[0]].append(file)
        elif matches_file(options.files, file.name) and not _is_given_to_another(file, sources):
            unknown.append(file)
    with suppress(LimitReachedError):
        for file in unknown[:MAX_FILES_OPENED]:
            is_shared = file.name.endswith(OF_OTHER_SOURCES)
            known, warning = recognise(file, allowance, OF_CURVES if is_shared else FORMATS)
            found.warnings.extend([warning] if warning else [])
            found.shared.update([file.name] if is_shared else [])
            if known is not None:
                found.by_format[known.name].append(file)
    if len(unknown) > MAX_FILES_OPENED:
        found.warnings.append(
            f"{len(unknown) - MAX_FILES_OPENED:,} files were not looked at for a known format: at most "
            f"{MAX_FILES_OPENED:,} are. Narrow sources.formats.files"
        )
    return found


def _is_given_to_another(file: storage.File, sources: Sources) -> bool:
    """Whether the test file names this file, or the step of its lines, for another source."""
    if any(matches_file(one.files, file.name) for one in sources.curves.values()):
        return True
    return any(
        one.enabled and {"files", "step"} & one.model_fields_set and matches_file(one.files, file.name)
        for one in (sources.json_lines, sources.csv)
    )


def read(request: Request) -> Found:
    """Of a series that files of two formats have, the earlier one counts: vLLM writes its results in two formats."""
    options, found = request.config.sources.formats, request.sorted or Sorted()
    parts = [Found(warnings=found.warnings)]
    format_of: dict[tuple[str, str], str] = {}
    twice: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for one in FORMATS:
        if not (files := found.by_format.get(one.name)):
            continue
        own = read_files(one, files, request.allowance, options.prefix, options.named_by)
        kept: list[Series] = []
        for series in own.series:
            first = format_of.setdefault((series.run, series.tag), one.name)
            if first == one.name:
                kept.append(series)
            else:
                twice[first, one.name].append(quoted(series.tag))
        parts.append(replace(own, series=kept))
    of_both = [
        f"{shortened_list(tags)} in files of {first} and {other}: those of {first} count"
        for (first, other), tags in twice.items()
    ]
    return together([*parts, Found(warnings=of_both)])


def read_files(
    format_: Format,
    files: Iterable[storage.File],
    allowance: Allowance,
    prefix: str = "",
    named_by: Sequence[str] = (),
) -> Found:
    """Read files of one format. A file that cannot be read causes a warning, and the others count."""
    readings = Readings(allowance, prefix, named_by)
    what, malformed = f"could not be read as {format_.name}", f"is no whole file of {format_.name}"
    readings.read_each(files, format_.read, what, malformed=malformed, expected=True)
    found = readings.found()
    sweeps = sweeps_of(readings.measurements, format_.axis, named_by, of_one=not found.series)
    warnings = list(found.warnings)
    if readings.measurements and not sweeps and not found.series:
        names = shortened_list(list(dict.fromkeys(one.file for one in readings.measurements)))
        warnings.append(
            f"{names}: no curve of {format_.name}: there is no number for {' or '.join(format_.axis.names)}"
        )
    return replace(found, sweeps=[replace(one, name=f"{prefix}{one.name}") for one in sweeps], warnings=warnings)

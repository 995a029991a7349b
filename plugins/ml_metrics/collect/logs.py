"""Logs: the lines that a log profile knows are points of the tags that it names."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ml_metrics.collect.formats.readings import Readings
from ml_metrics.collect.profiles.own import profile_of
from ml_metrics.collect.profiles.profile import STATED
from ml_metrics.collect.profiles.registry import BY_NAME
from ml_metrics.collect.source import Found, Request
from ml_metrics.config.collection import Restarts
from ml_metrics.config.linear import compiled
from ml_metrics.config.patterns import matches_any
from ml_metrics.errors import StorageError, UnreadableInputError
from ml_metrics.limits import LimitReachedError
from ml_metrics.model import Stated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics import storage
    from ml_metrics.collect.profiles.profile import Profile
    from ml_metrics.limits import Allowance

ESCAPE = b"\x1b"
COLOURS = r"\x1b\[[0-9;?]*[A-Za-z]"
POINT = Stated()


def read(request: Request) -> Found:
    """Read the files that the test file's patterns match, by its profiles."""
    options = request.config.sources.logs
    profiles = [profile_of(name, lines) for name, lines in options.profiles.items()]
    if options.profile is not None:
        profiles.insert(0, BY_NAME[options.profile])
    claimed = request.sorted.by_format.values() if request.sorted is not None else ()
    every = [*request.files, *(file for files in claimed for file in files)]  # a log may hold lines of MLPerf, too
    files = [file for file in every if profiles and matches_any(options.files, file.name)]
    once = request.config.restarts is Restarts.SUPERSEDE
    return read_logs(profiles, files, request.allowance, options.prefix, once=once)


def read_logs(
    profiles: Iterable[Profile], files: Iterable[storage.File], allowance: Allowance, prefix: str, *, once: bool = False
) -> Found:
    """Read files by profiles. With `once`, of several lines of one step the last counts: a job that was restarted."""
    readings = Readings(allowance, prefix)
    count = 0
    for file in files:
        count += 1
        found = False
        for profile in profiles:
            readings.begin(file)
            try:
                found = _read_file(readings, profile, once=once) or found
            except LimitReachedError:
                break
            except (UnreadableInputError, StorageError, OSError) as error:
                readings.lines.warn(f"could be read only in part: {error}")
            readings.end()
        if not found:
            names = " or ".join(one.name for one in profiles)
            readings.warnings.append(f"{file.name}: has no line that the log profile {names} knows")
    return Found(list(readings.series()), (), readings.all_warnings(), count)


def _read_file(readings: Readings, profile: Profile, *, once: bool) -> bool:
    """Read one file, and return whether a line had metrics."""
    lines = readings.lines
    lines.check = _incomplete
    parse = profile.start()
    literals = profile.literals
    only = literals[0] if len(literals) == 1 else b""
    kept: dict[tuple[str, int], float] = {}
    numbers: dict[str, int] = {}
    for block in lines.blocks():
        if only and only not in block:
            continue
        for line in block.split(b"\n"):
            if only not in line or not (only or any(one in line for one in literals)):
                continue
            reading = parse(plain(line))
            if reading is None:
                continue
            for tag, value in reading.values.items():
                number = numbers[tag] = numbers.get(tag, -1) + 1
                step = number if reading.step is None else reading.step
                if once:
                    kept.pop((tag, step), None)
                    if (tag, step) in kept or len(kept) < readings.allowance.limits.points:
                        kept[tag, step] = value
                else:
                    _add(readings, tag, step, value)
    for (tag, step), value in kept.items():
        _add(readings, tag, step, value)
    return bool(numbers)


def _add(readings: Readings, tag: str, step: int, value: float) -> None:
    rows = readings.rows_of(tag, STATED.get(tag, POINT))
    if rows is None:
        readings.left_out()
    else:
        rows += (step, float("nan"), value)
        readings.appended(1)


def plain(line: bytes) -> str:
    """Return a line as text, without colours."""
    text = line.decode(errors="replace")
    return str(compiled(COLOURS).sub("", text)) if ESCAPE in line else text


def _incomplete(_rest: bytes) -> None:
    """Raise ValueError: the last line of a log has a line end, or was cut."""
    raise ValueError("no line end")


def known_profiles(file: storage.File, allowance: Allowance) -> list[str]:
    """Return the names of the profiles that know a line of a file."""

    def knows(profile: Profile) -> bool:
        readings = Readings(allowance, "")
        readings.begin(file)
        with suppress(LimitReachedError, UnreadableInputError, StorageError, OSError):
            return _read_file(readings, profile, once=False)
        return False

    return [name for name, profile in BY_NAME.items() if knows(profile)]

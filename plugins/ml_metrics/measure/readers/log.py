"""Logs, read by the profile of a program or by one's own."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING

from ml_metrics.config.collection import STEP
from ml_metrics.config.patterns import compiled, matches_file
from ml_metrics.core.kinds import kind_of
from ml_metrics.measure.readers.log_profiles import LOG_PROFILES, STATED, Profile, Reading, whole
from ml_metrics.measure.readings import POINTS, Readings
from ml_metrics.measure.text import in_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.config.collection import LogProfile
    from ml_metrics.core.limits import Allowance
    from ml_metrics.measure.source import Found, Request
    from ml_metrics.store import storage


def profile_of(name: str, lines: LogProfile) -> Profile:
    """A profile of one's own. Its lines are matched in the order of the test file: the first one counts."""
    expressions = [(one.contains, compiled(one.line)) for one in lines.lines]
    units = {tag: kind_of(tag).unit for _, expression in expressions for tag in expression.groupindex}

    def read(line: str) -> Reading | None:
        for contains, expression in expressions:
            if contains and contains not in line:
                continue
            match = expression.search(line)
            if match is not None:
                groups = {tag: text for tag, text in match.groupdict().items() if text is not None}
                step = whole(groups.pop(STEP, ""))
                values = {
                    tag: value for tag, text in groups.items() if (value := in_unit(text, units[tag])) is not None
                }
                return Reading(step, values) if values else None
        return None

    literals = [one.contains.encode() for one in lines.lines]
    return Profile(name, tuple(literals) if all(literals) else (b"",), lambda: read, redrawn=True)


UNKNOWN = math.nan
"""The time of each point."""
COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]?")
"""The escape of a colour, parameters and a letter, which is absent where a line was cut."""


def read(request: Request) -> Found:
    options = request.config.sources.logs
    profiles = [profile_of(name, lines) for name, lines in options.profiles.items()]
    if options.profile is not None:
        profiles.insert(0, LOG_PROFILES[options.profile])
    claimed = request.sorted.by_format.values() if request.sorted is not None else ()
    every = [*request.files, *(file for files in claimed for file in files)]  # a log may hold lines of MLPerf, too
    files = [file for file in every if profiles and matches_file(options.files, file.name)]
    once = request.config.restarts == "supersede"
    return read_logs(profiles, files, request.allowance, options.prefix, once=once)


def read_logs(
    profiles: Sequence[Profile], files: Sequence[storage.File], allowance: Allowance, prefix: str, *, once: bool = False
) -> Found:
    """Read files by profiles. With `once`, of several lines of one step the last counts: a job that was restarted."""
    readings, known = Readings(allowance, prefix), set[str]()
    for profile in profiles:
        read = partial(_read_file, profile=profile, once=once, known=known)
        readings.read_each(files, read, "could be read only in part")
    readings.files = len(files)
    names = " or ".join(one.name for one in profiles)
    return readings.found(
        f"{file.name}: has no line that the log profile {names} knows" for file in files if file.name not in known
    )


def _read_file(readings: Readings, profile: Profile, known: set[str], *, once: bool = False) -> None:
    """Add the points of the current file, and its name to those that have any."""
    kept: dict[tuple[str, int], float] = {}
    """With `once`: the last value of each step."""
    for count, (_, reading) in enumerate(readings_of(readings, profile)):
        known.add(readings.lines.file.name)
        step = count if reading.step is None else reading.step
        for tag, value in reading.values.items():
            if not once:
                readings.point(tag, step, UNKNOWN, value, STATED.get(tag, POINTS))
            elif kept.pop((tag, step), None) is not None or len(kept) < readings.allowance.limits.points:
                kept[tag, step] = value
    for (tag, step), value in kept.items():
        readings.point(tag, step, UNKNOWN, value, STATED.get(tag, POINTS))


def readings_of(readings: Readings, profile: Profile) -> Iterator[tuple[str, Reading]]:
    """Yield each line of the current file that a profile matches, as text without colours, and its values."""
    readings.lines.check = _incomplete
    parse = profile.start()
    for block in readings.lines.blocks():
        for line in COLOUR.sub(b"", block).split(b"\n"):
            if not any(literal in line for literal in profile.literals):
                continue
            text = line.decode(errors="replace")
            for drawn in text.split("\r") if profile.redrawn else (text,):
                reading = parse(drawn)
                if reading is not None:
                    yield drawn, reading


def _incomplete(_rest: bytes) -> None:
    """Raise ValueError: the last line of a log has a line end, or was cut."""
    raise ValueError("no line end")


def known_profiles(file: storage.File, allowance: Allowance) -> list[str]:
    def knows(profile: Profile) -> bool:
        known = set[str]()
        Readings(allowance).read_each([file], partial(_read_file, profile=profile, known=known))
        return bool(known)

    return [name for name, profile in LOG_PROFILES.items() if knows(profile)]

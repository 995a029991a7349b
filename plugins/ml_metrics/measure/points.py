"""Which fields of a line or row are its step and its time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


STEPS = (
    "step", "_step", "global_step", "trainer/global_step", "train/global_step", "iteration", "_iteration", "iter",
    "training_iteration", "current_steps", "num_updates", "epoch",
)  # fmt: skip
"""The names of steps, the first choice first. An epoch is the step only where there is no other."""
EPOCH = "epoch"
TIMESTAMP = "timestamp"
"""The time of a result, in seconds since 1970."""
TIMES = (TIMESTAMP, "_timestamp", "wall_time", "walltime", "@timestamp")
"""Fields whose value is a time, whatever it is."""
MAYBE_TIMES = ("time", "ts", "datetime", "date")
"""Fields that are a time if the value can only be one: `time` is often a duration."""
LEVELS = ("level", "levelname", "severity", "loglevel", "log_level", "lvl")
MESSAGES = ("msg", "message", "event", "text")
LINE = "line"
"""The configured step of a file without steps: the number of the line."""
WELL_KNOWN = frozenset({*STEPS, *TIMES, *MAYBE_TIMES, *LEVELS, *MESSAGES})
MAX_SHAPES = 1000
MAX_NAMES, MAX_CHARACTERS = 2_000, 50_000
"""How many names a set of fields has that is kept, and how long they are together."""
MAX_STEP = 2**63
UNITS = ((1e11, 1.0), (1e14, 1e-3), (1e17, 1e-6), (math.inf, 1e-9))
"""Times below the first number are in seconds since 1970, below the second in milliseconds, and so on."""
FIRST_TIME, LAST_TIME = 1e9, 1e10
"""A number that can only be a time lies between 2001 and 2286, in one of the units."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The fields with a meaning of their own, for one set of fields."""

    step: str | None
    time: str | None
    certain_time: bool
    """Whether the field is a time whatever its value."""
    record: tuple[str, str] | None
    """The level and message of a log record."""


NOTHING = Plan(None, None, certain_time=False, record=None)


@dataclass(slots=True)
class PointFields:
    """Finds the fields of each line, by name."""

    step: str = ""
    """The name of the step; by default the first of `STEPS`."""
    time: str = ""
    """The name of the time; by default the first of `TIMES` and `MAYBE_TIMES`."""
    _plans: dict[tuple[str, ...], Plan] = field(default_factory=dict)

    def plan(self, names: tuple[str, ...]) -> Plan:
        known = self._plans.get(names)
        if known is not None:
            return known
        by_name = {
            known: name
            for name, known in ((name, "_".join(name.lower().split())) for name in reversed(names))
            if known in WELL_KNOWN
        }
        if not by_name and not self.step and not self.time:
            return self._keep(names, NOTHING)
        step = (self.step if self.step in names else None) if self.step else _first(STEPS, by_name)
        time = (self.time if self.time in names else None) if self.time else _first((*TIMES, *MAYBE_TIMES), by_name)
        level, message = _first(LEVELS, by_name), _first(MESSAGES, by_name)
        certain = time is not None and (bool(self.time) or "_".join(time.lower().split()) in TIMES)
        record = (level, message) if level is not None and message is not None else None
        return self._keep(names, Plan(step, time, certain, record))

    def _keep(self, names: tuple[str, ...], plan: Plan) -> Plan:
        if len(self._plans) >= MAX_SHAPES:
            self._plans.clear()
        if len(names) <= MAX_NAMES and sum(map(len, names)) <= MAX_CHARACTERS:
            self._plans[names] = plan
        return plan

    def is_epoch(self, plan: Plan) -> bool:
        """Whether the step is an epoch that nobody chose. Many programs write the fraction of it that is done: 0.12."""
        return not self.step and plan.step is not None and plan.step.lower() == EPOCH

    @property
    def numbered(self) -> bool:
        return self.step == LINE


def step_of(value: Any) -> int | None:
    """A JSON value as a step, or None if it is not a whole number."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and -MAX_STEP <= value < MAX_STEP else None


def seconds_of(value: Any, *, certain: bool) -> float | None:
    """A JSON value as seconds since 1970, or None if it is no time. Text without a zone is UTC."""
    if type(value) is float or type(value) is int:
        return seconds_of_number(value, certain=certain)
    if value is None and certain:
        return math.nan
    if type(value) is not str or not value[:1].isdigit() or value.isdigit():
        return None
    try:
        time = datetime.fromisoformat(value.replace("/", "-"))  # of nvidia-smi
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def seconds_of_number(value: float, *, certain: bool) -> float | None:
    """A number as seconds since 1970, or None if it is no time. Its size shows its unit."""
    try:
        seconds = value * next((unit for limit, unit in UNITS if abs(value) < limit), math.nan)
    except OverflowError:
        return None
    return seconds if certain or FIRST_TIME <= seconds < LAST_TIME else None


def _first(wanted: Iterable[str], by_name: Mapping[str, str]) -> str | None:
    return next((by_name[name] for name in wanted if name in by_name), None)

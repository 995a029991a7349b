"""How much of what a workload wrote is read: the limits, and what one run has used of them.

A workload may write anything, and as much as it likes. Readers stop at these limits, so the memory and the time of a
task are bounded whatever the files contain. Data that is left out is counted, and reported once for each limit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ml_metrics.core.errors import ConfigError, MlMetricsError
from ml_metrics.core.text import printable

PREFIX = "max_"
"""The setting of a limit is its name after this."""
FOLDERS_OF_A_TAG = 10
"""One tag may be written in several folders, such as one for each host: so many series for each tag, on average."""
BYTES_OF_NAMES = 64 << 20
"""The names of all series together. Memory holds them while a run is read."""
LONGEST_NAME = 2_000
"""The characters of a tag that may come first."""
UNPACKED_FREELY, MOST_TIMES_UNPACKED = 64 << 20, 200
"""Beyond so many bytes, all compressed files of a run unpack to at most so many times their size. Metrics compress to a
tenth; a file that is made to hold a worker compresses to a thousandth."""
LINE_BYTES = 4 << 20
"""The bytes of one line, and of a document whose reader takes many times their memory. `json_bytes` may be less."""
MAX_WARNINGS = 200
"""How many warnings of a run are kept: more than a reader reads, and few enough for a mail."""
MAX_WARNING = 2_000
"""The characters of one warning."""


class LimitReachedError(MlMetricsError):
    """The rest of the files is not read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one run may have. Each is a setting, named `max_` and the field, which says what it limits."""

    metrics: int = 5_000
    tags: int = 5_000
    points: int = 10_000_000
    bytes_read: int = 64 << 30
    bytes_unpacked: int = 4 << 30
    json_bytes: int = 64 << 20
    json_nesting: int = 64
    text: int = 1_000_000
    profile_bytes: int = 1 << 30
    seconds: int = 1_800

    @property
    def line_bytes(self) -> int:
        return min(self.json_bytes, LINE_BYTES)

    @property
    def series(self) -> int:
        """A tag may be written in several folders."""
        return self.tags * FOLDERS_OF_A_TAG

    @classmethod
    def of(cls, settings: Any) -> Self:
        """Raises ConfigError if a setting is not a whole number of at least 1."""
        stated = {one.name: getattr(settings, f"{PREFIX}{one.name}") for one in fields(cls)}
        return cls(**{name: whole(f"{PREFIX}{name}", text) for name, text in stated.items()})


UNLIMITED = Limits(**{one.name: 1 << 62 for one in fields(Limits) if one.name != "json_nesting"})
"""For files of one's own, such as a log that a job reads while it runs. What is nested deeper is no entry either."""


def whole(setting: str, text: str) -> int:
    digits = text.strip().replace("_", "").replace(",", "")
    if not (digits.isascii() and digits.isdigit() and int(digits[:20])):
        raise ConfigError(f"[ml_metrics] {setting}: {text!r} is not a whole number of at least 1")
    return min(int(digits[:20]), sys.maxsize)


@dataclass(slots=True)
class Allowance:
    """What the reading of one run may still use. Readers call it before they keep something."""

    limits: Limits = field(default_factory=Limits)
    comes_first: Callable[[str], bool] = lambda _: False
    """Whether a tag is kept even if others have used the limit."""
    progress: Callable[[int], None] = lambda _: None
    """Called with the number of bytes after each read."""
    clock: Callable[[], float] = time.monotonic
    exhausted: bool = False
    """Whether nothing more is read."""
    _used: dict[str, int] = field(default_factory=dict)
    _left_out: dict[str, int] = field(default_factory=dict)
    """By the sentence about a limit: how much was left out."""
    _stopped: str = ""
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.limits.seconds

    def read(self, count: int = 0) -> None:
        """Count bytes that were read. Raises LimitReachedError if nothing more may be read."""
        self.progress(count)
        used = self._use("bytes_read", count)
        if used > self.limits.bytes_read:
            self._stop("bytes_read", f"{self.limits.bytes_read:,} bytes of files were read")
        if self.clock() > self._end:
            self._stop("seconds", f"reading took {self.limits.seconds:,} s")

    def unpacked(self, count: int, packed: int = 0) -> None:
        """Count bytes that were unpacked, and those of the file that is unpacked from here on. Raises as `read`."""
        used, most = self._use("bytes_unpacked", count), self.limits.bytes_unpacked
        if used > most:
            self._stop("bytes_unpacked", f"{most:,} bytes were unpacked")
        packed = self._use("packed", packed)
        if used > max(UNPACKED_FREELY, MOST_TIMES_UNPACKED * packed) and most < UNLIMITED.bytes_unpacked:
            why = f"{packed:,} bytes of compressed files gave {used:,}, over {MOST_TIMES_UNPACKED} times as many"
            self._stop("bytes_unpacked", why)

    def has_points(self, count: int) -> bool:
        """Whether so many points may all be kept, and count them if so. Otherwise ask `points`."""
        has_room = self._used.get("points", 0) + count <= self.limits.points
        if has_room:
            self._use("points", count)
        return has_room

    def points(self, count: int, *, first: bool = False) -> int:
        """Return how many of so many points are kept: the first ones. Tags that come first have room of their own."""
        kept = min(count, self.limits.points - self._used.get("points", 0))
        self._use("points", kept)
        if kept < count and first:
            more = min(count - kept, self.limits.points - self._used.get("first points", 0))
            self._use("first points", more)
            kept += more
        if kept < count:
            self.leave_out("points", "points were", count - kept)
        return kept

    def has_series(self, tag: str) -> bool:
        """Whether another series may be kept. Tags that come first have own room. `leave_out_tags` counts others."""
        size, room = len(tag), "series"
        if self._used.get(room, 0) >= self.limits.series or self._used.get("names", 0) + size > BYTES_OF_NAMES:
            room = "first series"
            if self._used.get(room, 0) >= self.limits.tags or size > LONGEST_NAME or not self.comes_first(tag):
                return False
        self._use("names", size)
        self._use(room, 1)
        return True

    def leave_out_tags(self, count: int) -> None:
        most = f"{FOLDERS_OF_A_TAG} series for each of {self.limits.tags:,} tags"
        self.leave_out("tags", "points of further series were", count, most)

    def has_text(self, size: int) -> bool:
        """Whether another text of so many characters may be kept while the run is read."""
        if self._used.get("texts", 0) + size > BYTES_OF_NAMES:
            self.leave_out("text", "texts were", 1)
            return False
        self._use("texts", size)
        return True

    def first_ones(
        self, names: Sequence[str], limit: str, comes_first: Callable[[str], bool] | None = None
    ) -> Sequence[str]:
        """Return as many tags or metrics as a limit allows, in their order, but those that come first before others."""
        most = getattr(self.limits, limit)
        if len(names) <= most:
            return names
        self.leave_out(limit, f"{limit} were", len(names) - most)
        first = list(filter(comes_first or self.comes_first, names))[:most]
        chosen = set(first)
        others = [name for name in names if name not in chosen][: most - len(first)]
        kept = chosen.union(others)
        return [name for name in names if name in kept]

    def leave_out(self, limit: str, what: str, count: int, most: str = "") -> None:
        """Count what a limit leaves out. `what` is a subject and its verb, after a number."""
        sentence = (
            f"{what} left out: a run may have {most or format(getattr(self.limits, limit), ',')} ({PREFIX}{limit})"
        )
        self._left_out[sentence] = self._left_out.get(sentence, 0) + count

    def warnings(self) -> list[str]:
        stopped = [self._stopped] if self._stopped else []
        return [*stopped, *(f"{count:,} {sentence}" for sentence, count in self._left_out.items())]

    def _use(self, what: str, count: int) -> int:
        self._used[what] = used = self._used.get(what, 0) + count
        return used

    def _stop(self, limit: str, why: str) -> None:
        self.exhausted = True
        self._stopped = f"{why}, as much as a run may have ({PREFIX}{limit}); the rest of its files was not read"
        raise LimitReachedError(self._stopped)


def few(warnings: Iterable[str]) -> list[str]:
    """As many warnings as a reader reads, with the number of the others."""
    everything = list(warnings)
    # names of files and tags may have control characters, and any length
    short = [one if len(one) <= MAX_WARNING else f"{one[:MAX_WARNING]}..." for one in everything[:MAX_WARNINGS]]
    kept = list(map(printable, short))
    more = len(everything) - len(kept)
    return [*kept, f"{more:,} further warnings are left out"] if more else kept


def short_texts(texts: Mapping[str, str], longest: int, allowance: Allowance) -> dict[str, str]:
    """The texts that describe a run, as far as they fit: each cut at the longest, the first ones first."""
    kept: dict[str, str] = {}
    room, number = allowance.limits.text, allowance.limits.tags
    for name, text in texts.items():
        short = text if len(text) <= longest else f"{text[:longest]}..."
        size = len(name) + len(short)
        if size > room or len(kept) >= number:
            allowance.leave_out("text", "texts that describe the run were", 1)
            continue
        room -= size
        kept[name] = short
    return kept

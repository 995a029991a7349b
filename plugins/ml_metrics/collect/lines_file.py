"""The JSON lines that sources read, with a count of the lines and values that they could not use."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ml_metrics.errors import MlMetricsError, UnreadableInputError
from ml_metrics.json_lines import LineReader, parse_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics import storage

MAX_LINE_BYTES = 16 << 20
MAX_EXCERPT_LENGTH = 60
MAX_REASONS = 50
PIECE_BYTES = 128 << 10
"""A block that cannot be added by columns is cut into pieces of this size."""
LONGEST_PAUSE = 255
"""How many pieces at most are added line by line before columns are attempted again."""


@dataclass(slots=True)
class LinesFile:
    """One file of JSON lines, read once from start to end."""

    file: storage.File
    progress: Callable[[int], None] = lambda _: None
    check: Callable[[bytes], object] = json.loads
    """Raises ValueError for a last line without a line end that is incomplete."""
    _rejected: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By reason: how many lines or values, and an excerpt of the first."""
    _warnings: list[str] = field(default_factory=list)

    folder: str = field(init=False)
    """The file's folder below the run folder; `.` for the run folder itself."""

    def __post_init__(self) -> None:
        self.folder = self.file.name.rpartition("/")[0] or "."

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines in blocks of some megabytes. A file that cannot be read to its end causes a warning."""
        too_long = partial(self.reject, f"longer than {MAX_LINE_BYTES >> 20} MiB")
        reader = LineReader(self.file, MAX_LINE_BYTES, too_long, self.progress, self.check)
        for part in (reader.new_blocks, reader.last_line):
            try:
                yield from part()
            except UnreadableInputError as error:
                self._warnings.append(f"{self.file.name}: {error}")
            except (MlMetricsError, OSError) as error:
                self._warnings.append(f"{self.file.name}: could be read only in part: {error}")

    def objects(self, block: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each line's number within the block and its object. Other lines are rejected."""
        for number, value in parse_lines(block, partial(self.reject, "not JSON")):
            if type(value) is dict:
                yield number, value
            else:
                self.reject("not a JSON object", value)

    def reject(self, reason: str, content: object) -> None:
        """Count a line or value that cannot be used."""
        if len(self._rejected) >= MAX_REASONS and reason not in self._rejected:
            reason = "other reasons"
        count, first = self._rejected.get(reason) or (0, _excerpt(content))
        self._rejected[reason] = (count + 1, first)

    def warn(self, message: str) -> None:
        """Add a warning about the file."""
        self._warnings.append(f"{self.file.name}: {message}")

    def warnings(self) -> list[str]:
        """Return one warning for each reason for which lines or values were rejected."""
        counted = [
            f"{self.file.name}: {count} {'line or value was' if count == 1 else 'lines or values were'} left out: "
            f"{reason}: {first}"
            for reason, (count, first) in self._rejected.items()
        ]
        return [*self._warnings, *counted]


@dataclass(slots=True)
class InPieces:
    """Adds blocks by columns where that works, and line by line where it does not, in order.

    An attempt that fails costs time. After each further failure in a row, twice as many pieces are added line by line
    before the next attempt, so that no file takes noticeably longer than without any attempt.
    """

    by_columns: Callable[[bytes, int], bool]
    """Adds a block whose first line has this number. Returns False, with nothing added, if it is not regular enough."""
    by_lines: Callable[[bytes, int], None]
    _failures: int = 0
    """How many attempts failed one after the other."""
    _pause: int = 0
    """How many pieces are not attempted."""

    def add(self, block: bytes, first_line: int) -> None:
        """Add a block: as a whole, or else the pieces that it is cut into."""
        if len(block) > PIECE_BYTES and not self._failures and self.by_columns(block, first_line):
            return
        begin = 0
        while begin < len(block):
            end = block.find(b"\n", begin + PIECE_BYTES - 1) + 1 or len(block)
            piece = block[begin:end]
            if not self._attempt(piece, first_line):
                self.by_lines(piece, first_line)
            first_line += piece.count(b"\n")
            begin = end

    def _attempt(self, piece: bytes, first_line: int) -> bool:
        if self._pause:
            self._pause -= 1
            return False
        if self.by_columns(piece, first_line):
            self._failures = 0
            return True
        self._failures += 1
        self._pause = min(2**self._failures - 1, LONGEST_PAUSE)
        return False


def _excerpt(content: object) -> str:
    text = repr(content[: MAX_EXCERPT_LENGTH + 1].decode(errors="replace") if isinstance(content, bytes) else content)
    return text if len(text) <= MAX_EXCERPT_LENGTH else f"{text[:MAX_EXCERPT_LENGTH]}..."

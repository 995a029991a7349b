"""The JSON lines that sources read, with a count of the lines and values that they could not use."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.collect.untrusted_values import kind_of
from ml_metrics.errors import MlMetricsError, UnreadableInputError
from ml_metrics.json_lines import LineReader, count_lines, parse_lines
from ml_metrics.limits import Allowance, LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics import storage

MAX_REASONS = 50
PIECE_BYTES = 128 << 10
"""A block that cannot be added by columns is cut into pieces of this size."""
LONGEST_PAUSE = 255
"""How many pieces at most are added line by line before columns are attempted again."""


@dataclass(slots=True)
class LinesFile:
    """One file of JSON lines, read once from start to end."""

    file: storage.File
    allowance: Allowance = field(default_factory=Allowance)
    check: Callable[[bytes], object] = json.loads
    """Raises ValueError for a last line without a line end that is incomplete."""
    _rejected: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By reason: how many lines or values, and where the first is."""
    _warnings: list[str] = field(default_factory=list)

    first_line: int = 0
    """The number of the first line of the current block."""
    line: int = 0
    """The number of the current line, for rejections."""
    folder: str = field(init=False)
    """The file's folder below the run folder; `.` for the run folder itself."""

    def __post_init__(self) -> None:
        self.folder = self.file.name.rpartition("/")[0] or "."

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines in blocks of some megabytes. A file that cannot be read to its end causes a warning."""
        if self.allowance.exhausted:
            return
        most = self.allowance.limits.json_bytes
        reader = LineReader(
            self.file, most, self._reject_long, self.allowance.read, self.allowance.unpacked, check=self.check
        )
        for part in (reader.new_blocks, reader.last_line):
            try:
                for block in part():
                    self.line = self.first_line
                    yield block
                    self.first_line += count_lines(block)
            except LimitReachedError:
                return
            except UnreadableInputError as error:
                self.warn(str(error))
            except (MlMetricsError, OSError) as error:
                self.warn(f"could be read only in part: {error}")

    def objects(self, block: bytes, first_line: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of each line, counted from that of the first one, and its object. Others are rejected."""
        nesting = self.allowance.limits.json_nesting

        def reject(number: int, line: bytes) -> None:
            self.line = first_line + number
            self.reject(f"not JSON, or nested more than {nesting} deep", line)

        for number, value in parse_lines(block, reject, nesting):
            self.line = first_line + number
            if type(value) is dict:
                yield self.line, value
            else:
                self.reject("not a JSON object", value)

    def reject(self, reason: str, content: object) -> None:
        """Count a line or value that cannot be used. A warning tells where the first is, and what kind of value."""
        self._count(reason, f"{kind_of(content)} in line {self.line + 1:,}")

    def _count(self, reason: str, where: str) -> None:
        if len(self._rejected) >= MAX_REASONS and reason not in self._rejected:
            reason = "other reasons"
        count, first = self._rejected.get(reason, (0, where))
        self._rejected[reason] = (count + 1, first)

    def warn(self, message: str) -> None:
        """Add a warning about the file."""
        self._warnings.append(f"{self.file.name}: {message}")

    def _reject_long(self, _beginning: bytes) -> None:
        self.line = self.first_line
        self._count(f"longer than {self.allowance.limits.json_bytes:,} bytes", f"line {self.line + 1:,}")

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

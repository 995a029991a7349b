"""The JSON lines that sources read, with a count of the lines and values that they could not use."""

from __future__ import annotations

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
PIECE_BYTES = 128 << 10
"""A block that cannot be added by columns is halved until the pieces are as small as this."""


@dataclass(slots=True)
class LinesFile:
    """One file of JSON lines, read once from start to end."""

    file: storage.File
    progress: Callable[[int], None] = lambda _: None
    _rejected: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By reason: how many lines or values, and an excerpt of the first."""
    _warnings: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """The file's folder below the run folder; `.` for the run folder itself."""
        return self.file.name.rpartition("/")[0] or "."

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines in blocks of some megabytes. A file that cannot be read to its end causes a warning."""
        too_long = partial(self.reject, f"longer than {MAX_LINE_BYTES >> 20} MiB")
        reader = LineReader(self.file.path, MAX_LINE_BYTES, too_long, self.progress)
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
            if isinstance(value, dict):
                yield number, value
            else:
                self.reject("not a JSON object", value)

    def reject(self, reason: str, content: object) -> None:
        """Count a line or value that cannot be used."""
        count, first = self._rejected.get(reason) or (0, _excerpt(content))
        self._rejected[reason] = (count + 1, first)

    def warnings(self) -> list[str]:
        """Return one warning for each reason for which lines or values were rejected."""
        counted = [
            f"{self.file.name}: {count} {'line or value was' if count == 1 else 'lines or values were'} left out: "
            f"{reason}: {first}"
            for reason, (count, first) in self._rejected.items()
        ]
        return [*self._warnings, *counted]


def add_in_pieces(
    block: bytes, first_line: int, by_columns: Callable[[bytes, int], bool], by_lines: Callable[[bytes, int], None]
) -> None:
    """Add a block by columns, and only the small pieces around irregular lines line by line, in order."""
    if by_columns(block, first_line):
        return
    middle = block.find(b"\n", len(block) // 2) + 1
    if len(block) <= PIECE_BYTES or middle == len(block):
        by_lines(block, first_line)
        return
    add_in_pieces(block[:middle], first_line, by_columns, by_lines)
    add_in_pieces(block[middle:], first_line + block.count(b"\n", 0, middle), by_columns, by_lines)


def _excerpt(content: object) -> str:
    text = repr(content[: MAX_EXCERPT_LENGTH + 1].decode(errors="replace") if isinstance(content, bytes) else content)
    return text if len(text) <= MAX_EXCERPT_LENGTH else f"{text[:MAX_EXCERPT_LENGTH]}..."

"""Files of JSON lines: whole lines in blocks, and an account of those that cannot be used."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.errors import MlMetricsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK_BYTES = 4 << 20
LONGEST_LINE = 16 << 20
"""A line that is longer than this is no result of a run."""
SHOWN = 60
PIECE_BYTES = 128 << 10
"""A block that cannot be added by columns is halved until the pieces are as small as this."""


@dataclass(slots=True)
class LinesFile:
    """One file, read once from its begin to its end."""

    file: storage.File
    progress: Callable[[int], None] = lambda _: None
    _unusable: dict[str, tuple[int, str]] = field(default_factory=dict)
    _warnings: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """The folder below the run folder in which the file lies; `.` for the run folder itself."""
        return self.file.name.rpartition("/")[0] or "."

    def blocks(self) -> Iterator[bytes]:
        """Whole lines, some megabytes at a time. What is left of a line that its writer could not end is told."""
        try:
            yield from self._blocks()
        except (MlMetricsError, OSError) as error:
            self._warnings.append(f"{self.file.name}: could be read only in part: {error}")

    def objects(self, block: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
        """The objects of a block, each with the number of its line in the block. Other lines are told."""
        for number, line in enumerate(block.split(b"\n")):
            if not line.strip():
                continue
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                self.refuse("no JSON", line)
                continue
            if isinstance(content, dict):
                yield number, content
            else:
                self.refuse("no JSON object", line)

    def refuse(self, why: str, what: object) -> None:
        """Count something that cannot be used; the first of each kind is shown."""
        times, first = self._unusable.get(why) or (0, _shown(what))
        self._unusable[why] = (times + 1, first)

    def warnings(self) -> list[str]:
        """What could not be used, one sentence for each kind."""
        counted = [
            f"{self.file.name}: {times} of its lines or values {'is' if times == 1 else 'are'} left out: {why}: {first}"
            for why, (times, first) in self._unusable.items()
        ]
        return [*self._warnings, *counted]

    def _blocks(self) -> Iterator[bytes]:
        with storage.open_read(self.file.path) as source:
            rest = b""
            while data := source.read(BLOCK_BYTES):
                self.progress(len(data))
                data = rest + data
                end = data.rfind(b"\n") + 1
                if end:
                    yield data[:end]
                rest = data[end:]
                if len(rest) > LONGEST_LINE:
                    self.refuse(f"longer than {LONGEST_LINE >> 20} MiB", rest)
                    rest = b"-"  # what follows up to the next line end belongs to it: no JSON either
        if not rest.strip(b"\0 \t\r\n"):
            return
        try:
            json.loads(rest)
        except (ValueError, RecursionError):
            self._warnings.append(f"{self.file.name}: ends inside a line, which was left out")
        else:
            yield rest + b"\n"


def add_in_pieces(
    block: bytes, first_line: int, by_columns: Callable[[bytes, int], bool], by_lines: Callable[[bytes, int], None]
) -> None:
    """Add a block by columns, and only the pieces around what is odd in it line by line, in the order of the lines."""
    if _is_text(block) and by_columns(block, first_line):
        return
    middle = block.find(b"\n", len(block) // 2) + 1
    if len(block) <= PIECE_BYTES or middle == len(block):
        by_lines(block, first_line)
        return
    add_in_pieces(block[:middle], first_line, by_columns, by_lines)
    add_in_pieces(block[middle:], first_line + block.count(b"\n", 0, middle), by_columns, by_lines)


def _is_text(block: bytes) -> bool:
    """Whether it is UTF-8 throughout: pyarrow does not look, and the json module refuses lines that are not."""
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def _shown(what: object) -> str:
    text = repr(what[: SHOWN + 1].decode(errors="replace") if isinstance(what, bytes) else what)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

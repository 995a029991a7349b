"""Reads event files completely: every scalar of every file, and the last text of each text tag."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ml_metrics.events.accumulator import Accumulator
from ml_metrics.events.blocks import BLOCK_SIZE, Block, BlockReader, EventFile
from ml_metrics.events.decoder import Decoder
from ml_metrics.events.layout import MAX_TEXT_BYTES
from ml_metrics.events.sessions import Session, without_superseded
from ml_metrics.limits import Allowance, LimitReachedError
from ml_metrics.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ml_metrics import storage


@dataclass(frozen=True, slots=True)
class Text:
    """The last text of a text tag."""

    run: str
    tag: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The contents of a folder's event files."""

    series: list[Series]
    """Sorted by run, then tag."""
    texts: list[Text]
    warnings: list[str]
    files: int
    """The number of event files."""


def is_event_file(file: storage.File) -> bool:
    """Return whether a file is an event file. This is TensorBoard's own rule, based on the name."""
    name = PurePosixPath(file.name).name
    return "tfevents" in name and not name.endswith(".profile-empty")


def read_events(  # noqa: PLR0913  (independent options)
    files: Sequence[storage.File],
    *,
    verify: bool = False,
    supersede: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    allowance: Allowance | None = None,
    block_size: int = BLOCK_SIZE,
) -> Events:
    """Read every event file among `files`, and ignore other files.

    A file is read up to its first fault, which is reported as a warning.

    Args:
        files: The files of a folder, event files or not.
        verify: Verify the checksums of large records without scalars too, such as images. Everything that is decoded is
            always verified.
        supersede: Drop points that a restarted workload wrote again.
        progress: Called with the number of bytes after each read, unless an allowance counts them.
        allowance: How much is read and kept.
        block_size: The size of the buffer in bytes.
    """
    sources = [
        EventFile(file, [Session(str(PurePosixPath(file.name).parent))])
        for file in sorted(files, key=lambda file: file.name)
        if is_event_file(file)
    ]
    allowance = allowance or Allowance(progress=progress)
    if allowance.exhausted:
        sources = []
    accumulator = Accumulator(allowance)
    decoder = Decoder(accumulator, verify=verify)
    with suppress(LimitReachedError):
        for item in BlockReader(allowance.read, decoder.can_skip, block_size, verify=verify).read(sources):
            if isinstance(item, Block):
                decoder.decode_block(item)
            else:
                decoder.decode_oversized(item)
    sessions = [session for file in sources for session in file.sessions]
    return Events(
        list(_series(accumulator, sessions, supersede=supersede)),
        [Text(run, _name(tag), _text(text)) for (run, tag), (_, text) in sorted(accumulator.texts.items())],
        [*(file.fault for file in sources if file.fault), *_notes(accumulator)],
        len(sources),
    )


def _series(accumulator: Accumulator, sessions: list[Session], *, supersede: bool) -> Iterator[Series]:
    """Yield the points of each run and tag, in the order of writing."""
    of_run: dict[str, list[Session]] = {}
    for session in sessions if supersede else ():
        of_run.setdefault(session.run, []).append(session)
    numbers = {session: number for number, session in enumerate(sessions)} if supersede else {}
    keys = [
        (session.run, _name(name.tag), numbers.get(session, 0))
        if not name.plugin_unknown or (session.run, name.tag) not in accumulator.other_plugin_tags
        else None
        for session, name in accumulator.parts
    ]
    parts_of = accumulator.parts.items()
    single = {(session.run, _name(name.tag)) for (session, name), number in parts_of if number in accumulator.single}
    found = accumulator.points(keys)
    for (run, tag), parts in groupby(found, key=lambda item: item[0][:2]):
        if supersede:
            written = {sessions[number]: points for (_, _, number), points in parts}
            points = without_superseded(written, of_run[run])
        else:
            _, points = next(parts)
        yield Series(run, tag, points.step, points.wall_time, points.value, single=(run, tag) in single)


def _name(tag: bytes) -> str:
    """Decode a tag. Bytes that are not UTF-8 are escaped."""
    return tag.decode("utf-8", "backslashreplace")


def _text(text: bytes) -> str:
    """Decode a text. A text that is too long is cut between two characters."""
    return text[:MAX_TEXT_BYTES].decode("utf-8", "ignore") if len(text) > MAX_TEXT_BYTES else _name(text)


def _notes(accumulator: Accumulator) -> list[str]:
    """Return warnings about values that look like scalars but were not read."""
    multi_element_tags = [
        f"{run}: tag {_name(tag)!r} is written as a scalar but holds tensors of {elements} elements; not counted"
        for (run, tag), elements in sorted(accumulator.multi_element_tags.items())
    ]
    cut = [
        f"{run}: text {_name(tag)!r} is longer than {MAX_TEXT_BYTES:,} bytes; the rest of it is left out"
        for (run, tag), (_, text) in sorted(accumulator.texts.items())
        if len(text) > MAX_TEXT_BYTES
    ]
    return [*multi_element_tags, *cut]

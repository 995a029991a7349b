"""Read event files completely: every scalar of every file, and the last text of each text tag."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ml_metrics.events.accumulator import Gathering
from ml_metrics.events.blocks import CAPACITY, Block, Blocks, EventFile
from ml_metrics.events.decoding import Decoding
from ml_metrics.events.record import MAX_TEXT_BYTES
from ml_metrics.events.sessions import Session, without_superseded
from ml_metrics.model import Series

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
    """What a folder's event files say."""

    series: list[Series]
    """Sorted by run, then tag."""
    texts: list[Text]
    warnings: list[str]
    files: int
    """How many event files there were."""


def is_event_file(file: storage.File) -> bool:
    """Whether a file's name says that it is an event file, by TensorBoard's own rule."""
    name = PurePosixPath(file.name).name
    return "tfevents" in name and not name.endswith(".profile-empty")


def read_events(
    files: Sequence[storage.File],
    *,
    verify: bool = False,
    supersede: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    block_size: int = CAPACITY,
) -> Events:
    """Read every event file among `files`; the others are passed over.

    Every record's length passes its checksum, and so does everything that is decoded; `verify` checks the images and
    other large records too, which are otherwise passed over. What cannot be trusted ends its file with a warning.
    `supersede` drops what a restarted workload wrote again. `progress` is told of the bytes as they are read;
    `block_size` of them are held at once.
    """
    sources = [_event_file(file) for file in sorted(files, key=lambda file: file.name) if is_event_file(file)]
    gathering = Gathering()
    decoding = Decoding(gathering, verify=verify)
    for item in Blocks(progress, decoding.passes_over, block_size).read(sources):
        if isinstance(item, Block):
            decoding.block(item)
        else:
            decoding.giant(item)
    sessions = [session for file in sources for session in file.sessions]
    return Events(
        list(_series(gathering, sessions, supersede=supersede)),
        [Text(run, _name(tag), _text(text)) for (run, tag), (_, text) in sorted(gathering.texts.items())],
        [*(file.fault for file in sources if file.fault), *_notes(gathering)],
        len(sources),
    )


def _event_file(file: storage.File) -> EventFile:
    return EventFile(file.path, file.name, file.size, [Session(str(PurePosixPath(file.name).parent))])


def _series(gathering: Gathering, sessions: list[Session], *, supersede: bool) -> Iterator[Series]:
    """The points of each run and tag, in the order in which they were written."""
    numbers = {session: number for number, session in enumerate(sessions)} if supersede else {}
    keys = [
        (part.session.run, _name(part.name.tag), numbers.get(part.session, 0))
        if not part.name.bare or (part.session.run, part.name.tag) not in gathering.foreign
        else None
        for part in gathering.parts
    ]
    found = gathering.points(keys)
    for (run, tag), parts in groupby(found, key=lambda item: item[0][:2]):
        if supersede:
            written = {sessions[number]: points for (_, _, number), points in parts}
            points = without_superseded(written, [session for session in sessions if session.run == run])
        else:
            _, points = next(parts)
        yield Series(run, tag, points.step, points.wall_time, points.value)


def _name(tag: bytes) -> str:
    """A tag as text. What is not UTF-8 stays visible."""
    return tag.decode("utf-8", "backslashreplace")


def _text(text: bytes) -> str:
    """A text, cut between two letters if it is too long."""
    return text[:MAX_TEXT_BYTES].decode("utf-8", "ignore") if len(text) > MAX_TEXT_BYTES else _name(text)


def _notes(gathering: Gathering) -> list[str]:
    """What was passed over although it looks as if it should count."""
    shaped = [
        f"{run}: tag {_name(tag)!r} is written as a scalar but holds tensors of {elements} elements; not counted"
        for (run, tag), elements in sorted(gathering.shaped.items())
    ]
    cut = [
        f"{run}: text {_name(tag)!r} is longer than {MAX_TEXT_BYTES:,} bytes; the rest of it is left out"
        for (run, tag), (_, text) in sorted(gathering.texts.items())
        if len(text) > MAX_TEXT_BYTES
    ]
    return [*shaped, *cut]

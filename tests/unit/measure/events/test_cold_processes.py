"""A process that has read nothing else reads records of every length and shape.

Tables and layouts are built for the records that occur, so what one record leaves behind may hide that another cannot
be read. Each file here is therefore read by a process of its own.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import pytest

from ml_metrics.measure.events.blocks import ALWAYS_VERIFIED_SIZE, HEAD_SIZE
from ml_metrics.measure.events.columns import MIN_GROUP_ROWS
from unit.measure.events.cold_reader import Contents, read_cold
from unit.measure.events.event_files import content, event, field, simple, tensor, write

MANY = 2 * MIN_GROUP_ROWS
"""Enough records to be read in columns."""
LIMITS = (16, 128, HEAD_SIZE, 512, 1024, 1 << 14, ALWAYS_VERIFIED_SIZE)
SHORTEST = 24
LENGTHS = sorted(
    {*range(SHORTEST, 120, 2), *range(121, 1500, 23), *range(490, 530, 3), 2000, 3000, 6000, 10_000, 40_000}
    | {length for limit in LIMITS for length in range(max(SHORTEST, limit - 4), limit + 5)}
)
Value = Callable[[str, float], bytes]
SHAPE = field(2, b"")
TWO_VALUES = "two values in an event"


FORMS: dict[str, Value] = {
    "simple_value": simple,
    "content": lambda tag, number: tensor(tag, content(1, struct.pack("<f", number))),
    "packed": lambda tag, number: tensor(tag, b"\x08\x01" + field(5, struct.pack("<f", number))),
    "unpacked": lambda tag, number: tensor(tag, b"\x08\x01" + SHAPE + b"\x2d" + struct.pack("<f", number)),
    "packed double": lambda tag, number: tensor(tag, b"\x08\x02" + SHAPE + field(6, struct.pack("<d", number))),
    "no plugin": lambda tag, number: tensor(tag, content(1, struct.pack("<f", number)), plugin=""),
    "metadata": lambda tag, number: (
        simple(tag, number) + field(9, field(1, field(1, b"scalars")) + field(2, b"Shown as") + field(3, b"# About"))
    ),
    "metadata before": lambda tag, number: field(9, field(2, b"Shown as")) + simple(tag, number),
    TWO_VALUES: simple,
}
"""One value of the tag, in each form that writers use, and in some that protobuf allows."""
STEPS: dict[str, Callable[[int], int]] = {
    "absent": lambda _: 0,
    "small": lambda index: index,
    "large": lambda index: 2**31 + index,
    "huge": lambda index: 2**62 - index,
    "negative": lambda index: -1 - index,
}


@dataclass(frozen=True, slots=True)
class Case:
    """Records of one tag. The first of them has the given length."""

    form: str
    steps: str
    tag: str
    length: int
    records: int

    def payload(self, index: int) -> bytes:
        beside = [simple("beside", -1.0)] if self.form == TWO_VALUES else []
        value = FORMS[self.form](self.tag, index / 4)
        return event(STEPS[self.steps](index), *beside, value, wall_time=1.79e9 + index)

    def contents(self) -> Contents:
        points = [(STEPS[self.steps](index), 1.79e9 + index, (index / 4).hex()) for index in range(self.records)]
        other = [(step, wall_time, (-1.0).hex()) for step, wall_time, _ in points]
        return Contents({(".", self.tag): points} | ({(".", "beside"): other} if self.form == TWO_VALUES else {}), [])


def cases(lengths: list[int], counts: list[int]) -> Iterator[Case]:
    """Yield a case of each length and number of records. Forms and steps take turns."""
    turns = cycle([(form, steps) for steps in STEPS for form in FORMS])
    for records in counts:
        for length in lengths:
            yield next(filter(None, (of_length(*next(turns), length, records) for _ in range(len(FORMS) * len(STEPS)))))


def of_length(form: str, steps: str, length: int, records: int) -> Case | None:
    """Return the case with a tag as long as the length requires, or None if there is no such tag."""
    most = length - len(Case(form, steps, "", length, 1).payload(0))
    for size in range(max(0, most - 12), most + 1):
        case = Case(form, steps, "".join(islice(cycle("train/loss_"), size)), length, records)
        if len(case.payload(0)) == length:
            return case
    return None


def check(folder: Path, chosen: list[Case]) -> None:
    folders = [
        write(folder / str(number), *map(case.payload, range(case.records))).parent
        for number, case in enumerate(chosen)
    ]
    for case, read in zip(chosen, read_cold(folders), strict=True):
        assert read == case.contents(), case


def test_every_length_in_columns(tmp_path: Path) -> None:
    check(tmp_path, list(cases(LENGTHS, [MANY])))


def test_one_record_and_a_few(tmp_path: Path) -> None:
    check(tmp_path, list(cases(LENGTHS[::12], [1, MIN_GROUP_ROWS - 1, MIN_GROUP_ROWS])))


def test_every_form_with_every_kind_of_step(tmp_path: Path) -> None:
    chosen = [of_length(form, steps, 300, MANY) for form in FORMS for steps in STEPS]
    check(tmp_path, [case for case in chosen if case])


@pytest.mark.parametrize("length", [40, 800, ALWAYS_VERIFIED_SIZE])
def test_a_fresh_interpreter(tmp_path: Path, length: int) -> None:
    """A fork shares the imported modules. An interpreter of its own shares nothing."""
    check(tmp_path, list(cases([length], [MANY])))

"""Removing the colours of a terminal from the lines of a log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.text import number_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray


ESCAPE = b"\x1b["
COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]?")
"""The escape, parameters and a letter, which is absent where a line was cut."""
PARAMETER, LETTER = 1, 2
KINDS = np.zeros(256, np.uint8)
"""What each byte is after an escape."""
KINDS[list(b"0123456789;?")] = PARAMETER
KINDS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] = LETTER
MAX_PARAMETERS = 32
"""Longer ones, which no program prints, are left to the regular expression."""


def without_colours(block: bytes) -> bytes:
    """Return lines without colours: what COLOUR finds is removed, all escapes at once."""
    if ESCAPE not in block:
        return block
    characters = np.frombuffer(block + b"\n", np.uint8)  # every escape has something behind it
    kept = np.ones(len(characters), np.bool_)
    at = np.flatnonzero(characters == ESCAPE[0])
    at = at[characters[at + 1] == ESCAPE[1]]
    kept[at] = kept[at + 1] = False
    at += 2
    for _ in range(MAX_PARAMETERS):
        if not at.size:
            return characters[:-1][kept[:-1]].tobytes()
        kinds = KINDS[characters[at]]
        kept[at[kinds > 0]] = False
        at = at[kinds == PARAMETER] + 1
    return COLOUR.sub(b"", block)


LOSS, STEP_TIME, GRAD_NORM, LEARNING_RATE = "loss", "step_time", "grad_norm", "learning_rate"
WITH_VALIDATION = "step_time_with_validation"
"""The time of an epoch and its validation, divided by the steps."""
TOKENS, TFLOPS, MFU = "tokens_per_second_per_device", "tflops_per_device", "mfu_percent"
STATED = {
    LOSS: Stated(better=LOWER),
    STEP_TIME: Stated("s", LOWER),
    WITH_VALIDATION: Stated("s", LOWER),
    TOKENS: Stated("tokens/s", HIGHER),
    TFLOPS: Stated("TFLOP/s", HIGHER),
    MFU: Stated("%", HIGHER),
}
"""The tags that mean the same in every program."""
LONGEST_NUMBER = 60


class Reading(NamedTuple):
    """What one line says."""

    step: int | None
    """None if the program prints none: the number of the line counts."""
    values: Mapping[str, float]


class Parser(NamedTuple):
    """What reads the lines of one log, in order."""

    line: Callable[[str], Reading | None]
    """Reads one line: None for a line that holds no metrics or is not whole."""
    lines: Callable[[pa.StringArray], Columns | None] | None = None
    """Reads many lines at once, if they are alike: None, and the same result line by line, if they are not."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One program."""

    name: str
    program: str
    """The program, for the documentation."""
    literals: tuple[bytes, ...]
    """A line without any of them is not looked at."""
    start: Callable[[], Parser]
    """Begins a log."""
    examples: Mapping[str, Reading] = field(default_factory=dict)
    """Lines of the program, with what they say. A test holds them."""
    redrawn: bool = False
    """Whether a bar counts each time that it is drawn, and not only the last time."""


def number(text: str) -> float | None:
    """Return a number as programs print it: `7,033`, `1.05E+01`, `16.7%`, `596.2/596.2`, `nan`; None for `N/A`."""
    if len(text) <= LONGEST_NUMBER and "_" not in text:
        try:
            return float(text)
        except ValueError:
            pass
    text = text[:LONGEST_NUMBER].strip().partition("/")[0].removesuffix("%")
    whole, comma, rest = text.partition(",")
    if comma and whole.lstrip("+-").isdigit() and all(len(part.partition(".")[0]) == 3 for part in rest.split(",")):  # noqa: PLR2004  (thousands)
        text = text.replace(",", "")
    return number_in(text) if text else None


def named(pairs: Mapping[str, str], names: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """Return the values of known names, under their tags and in their units."""
    found = {}
    for name, (tag, factor) in names.items():
        value = number(pairs[name]) if name in pairs else None
        if value is not None:
            found[tag] = value * factor
    return found


def whole(text: str) -> int | None:
    """Return a step."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None  # noqa: PLR2004  (64 bits)


UNUSUAL = tuple(bytes([one]) for one in (*range(0x0B, 0x0D), *range(0x1C, 0x20)))
"""Characters that Python takes for blanks, and other programs do not."""
WITH_COMMAS = r"^[0-9]{1,3}(,[0-9]{3})*(\.[0-9]+)?$"
WHOLE = "^[0-9]{1,18}$"


@dataclass(frozen=True, slots=True)
class Columns:
    """What several lines say, each of which has all of these tags."""

    step: NDArray[np.int64] | None
    """None if the program prints none."""
    values: Mapping[str, NDArray[np.float64]]


def lines_of(block: bytes, literals: Sequence[bytes]) -> pa.StringArray | None:
    """Return the lines of a block with one of some texts; None if they are to be read one by one."""
    import pyarrow as pa
    from pyarrow import compute

    if not all(literals) or any(one in block for one in UNUSUAL) or not block.endswith(b"\n"):
        return None
    try:
        if not block.isascii():
            block.decode()
    except UnicodeDecodeError:
        return None
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends + 1
    every = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(block))
    known = compute.match_substring(every, literals[0].decode())
    for literal in literals[1:]:
        known = compute.or_(known, compute.match_substring(every, literal.decode()))
    return compute.ascii_rtrim(every.filter(known), "\n")


def parts_of(texts: pa.StringArray, separator: str, count: int | None = None) -> list[pa.StringArray] | None:
    """Return the parts between separators: the first, the second, ... part of each text. None if some have more."""
    from pyarrow import compute

    lists = compute.split_pattern(texts, separator, max_splits=None if count is None else count - 1)
    lengths = compute.list_value_length(lists)
    extremes = compute.min_max(lengths).as_py()
    if extremes["min"] != extremes["max"] or (count is not None and extremes["min"] != count):
        return None
    return [compute.list_element(lists, place) for place in range(extremes["min"])]


def named_parts(parts: Sequence[pa.StringArray], separator: str) -> dict[str, pa.StringArray] | None:
    """Return the values of `name: value` by name, as they are written; None if lines differ in their names."""
    from pyarrow import compute

    found = {}
    for part in parts:
        name, mark, _ = part[0].as_py().partition(separator)
        if not mark:
            if compute.any(compute.match_substring(part, separator)).as_py():
                return None
            continue
        if not compute.all(compute.starts_with(part, name + mark)).as_py():
            return None
        found[name] = compute.utf8_slice_codeunits(part, len(name + mark))
    return found


def numbers(texts: pa.StringArray) -> NDArray[np.float64] | None:
    """Return texts as numbers, as `number` does; an empty array if none is a number, None if only some are."""
    import pyarrow as pa
    from pyarrow import compute

    if compute.max(compute.binary_length(texts)).as_py() <= LONGEST_NUMBER:
        for change in (_as_it_is, _without_percent, _without_commas):
            changed = change(texts)
            if changed is None or not _is_plain(changed[0].as_py()):  # a cast that fails takes eight times as long
                continue
            try:
                values = changed.cast(pa.float64()).to_numpy()
            except pa.ArrowInvalid:
                continue
            if np.isfinite(values).all():
                return values  # type: ignore[no-any-return]  # pyarrow's
    distinct = texts.dictionary_encode()
    found = [number(one) for one in distinct.dictionary.to_pylist()]
    present = [one for one in found if one is not None]
    if len(present) not in {0, len(found)}:
        return None
    return np.array(present)[distinct.indices.to_numpy()] if present else np.zeros(0)


def named_numbers(
    texts: Mapping[str, pa.StringArray], names: Mapping[str, tuple[str, float]]
) -> dict[str, NDArray[np.float64]] | None:
    """Return the values of known names, under their tags and in their units."""
    found = {}
    for name, (tag, factor) in names.items():
        if name not in texts:
            continue
        values = numbers(texts[name])
        if values is None:
            return None
        if values.size:
            found[tag] = values * factor
    return found


def steps(texts: pa.StringArray) -> NDArray[np.int64] | None:
    """Return texts as steps, as `whole` does; None if one is no step."""
    import pyarrow as pa
    from pyarrow import compute

    trimmed = compute.ascii_trim_whitespace(texts)
    if not compute.all(compute.match_substring_regex(trimmed, WHOLE)).as_py():
        return None
    return trimmed.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]  # pyarrow's


def every(condition: Callable[..., pa.StringArray], texts: pa.StringArray, *argv: str) -> bool:
    """Whether a condition of pyarrow holds for each text."""
    from pyarrow import compute

    return bool(compute.all(condition(texts, *argv)).as_py())


def _is_plain(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_it_is(texts: pa.StringArray) -> pa.StringArray:
    return texts


def _without_percent(texts: pa.StringArray) -> pa.StringArray | None:
    from pyarrow import compute

    return compute.utf8_slice_codeunits(texts, 0, -1) if every(compute.ends_with, texts, "%") else None


def _without_commas(texts: pa.StringArray) -> pa.StringArray | None:
    from pyarrow import compute

    if not every(compute.match_substring_regex, texts, WITH_COMMAS):
        return None
    return compute.replace_substring(texts, ",", "")

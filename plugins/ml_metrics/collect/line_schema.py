"""The fields that the lines of a file have had so far, and parsing lines with just these fields as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.json_lines import count_lines, first_lines, parse_lines, parse_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

SAMPLE_LINES = 20
"""The fields of the first lines of each block are added before it is parsed."""
MAX_COLUMNS = 256
MAX_NAME = 2_000
MAX_DEPTH = 16
MIN_BYTES_OF_CELL, MAX_BYTES_OF_CELL = 3, 120
"""Lines with fewer bytes for each column have few of the columns, and with more they are mostly text. Both are parsed
faster one by one."""
TRUE, FALSE = b"1.0e00", b"0.0e00"
"""Placeholders for booleans: spelled as no program writes numbers, so that a replacement inside a text is noticed."""
PLACEHOLDERS = ("NaN", "e00")
"""A name or text that contains one of these may have been changed by a replacement."""
Types = dict[str, Any]
"""By field: the name of its type in pyarrow, or the fields of an object."""


@dataclass(slots=True)
class LineSchema:
    """The fields of one file.

    With a schema, pyarrow does not take text that looks like a time for one.
    """

    whole: Callable[[tuple[str, ...]], bool]
    """Whether whole numbers in the field with this path stay whole numbers. All others are floats."""
    fields: Types = field(default_factory=dict)
    columns: int = 0
    usable: bool = True
    """Whether pyarrow can parse the fields at all."""
    _built: pa.Schema | None = None

    def learn(self, content: dict[str, Any]) -> None:
        """Add the fields of a line."""
        self._learn(content, self.fields, ())

    def fits(self, block: bytes) -> bool:
        """Whether lines may be parsed faster by columns than one by one: not if they are mostly text."""
        cells = (self.columns or MAX_COLUMNS) * (count_lines(block) or 1)
        return self.usable and len(block) <= MAX_BYTES_OF_CELL * cells

    def parse(self, block: bytes) -> pa.Table | None:
        """Return the lines as a table, or None if they are not regular enough."""
        try:
            for _, content in parse_lines(first_lines(block, SAMPLE_LINES), lambda *_: None):
                if isinstance(content, dict):
                    self.learn(content)
            schema = self._schema()
        except ValueError:  # includes names that are not UTF-8
            return None
        cells = self.columns * count_lines(block)
        if schema is None or not MIN_BYTES_OF_CELL * cells <= len(block) <= MAX_BYTES_OF_CELL * cells:
            return None
        return parse_table(block, schema)

    def _learn(self, content: dict[str, Any], types: Types, path: tuple[str, ...]) -> None:
        for name, value in content.items():
            known, kind = types.get(name), type(value)
            here = (*path, name)
            if kind is dict:
                if not isinstance(known, dict):
                    types[name] = known = {}
                    self._built = None
                self.usable &= len(path) < MAX_DEPTH
                if self.usable:
                    self._learn(value, known, here)
                continue
            if isinstance(known, dict):  # the line will not fit, but lines of the other kind are likelier
                continue
            new = _type_of(kind, known, whole=kind is int and self.whole(here))
            if new is None:
                self.usable = False
            elif new != known:
                types[name] = new
                self.columns += known is None
                self._built = None
                self.usable &= self.columns <= MAX_COLUMNS and len(name) <= MAX_NAME

    def _schema(self) -> pa.Schema | None:
        import pyarrow as pa

        if not self.usable:
            return None
        if self._built is None:
            self._built = pa.schema(_arrow(self.fields))
        return self._built


def _type_of(kind: type, known: str | None, *, whole: bool) -> str | None:
    """Return the type of a field after another value of this kind, or None if the kind is not supported."""
    if kind is bool:
        return "bool_" if known in {None, "bool_"} else known
    if kind is type(None) and known == "string":
        return known
    if whole and known != "float64":
        return "int64"
    return {str: "string", int: "float64", float: "float64", type(None): "float64"}.get(kind)


def without_nulls(block: bytes) -> bytes | None:
    """Return a block with NaN in place of null, or None if null is elsewhere: in a column, null means absent."""
    if b"null" not in block:
        return block
    block = block.replace(b": null", b": NaN").replace(b":null", b":NaN")
    return None if b"null" in block else block


def without_booleans(block: bytes) -> bytes:
    """Return a block with numbers in place of booleans."""
    for boolean, number in ((b"true", TRUE), (b"false", FALSE)):
        block = block.replace(b": " + boolean, b": " + number).replace(b":" + boolean, b":" + number)
    return block


def has_placeholder(text: str) -> bool:
    """Whether a replacement may have changed a name or text."""
    return any(placeholder in text for placeholder in PLACEHOLDERS)


def is_of(column: pa.Array, kinds: Iterable[str]) -> bool:
    """Whether the type of a column is of one of these kinds, by pyarrow's names."""
    import pyarrow as pa

    return any(getattr(pa.types, f"is_{kind}")(column.type) for kind in kinds)


def floats(column: pa.Array) -> NDArray[np.float64]:
    """Return the numbers of a column, with NaN for null."""
    return column.to_numpy(zero_copy_only=False).astype(np.float64)  # type: ignore[no-any-return]  # pyarrow's


def _arrow(types: Types) -> list[tuple[str, Any]]:
    import pyarrow as pa

    return [
        (name, pa.struct(_arrow(kind)) if isinstance(kind, dict) else getattr(pa, kind)())
        for name, kind in types.items()
    ]

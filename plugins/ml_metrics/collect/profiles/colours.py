"""Removing the colours of a terminal from the lines of a log."""

from __future__ import annotations

import re

import numpy as np

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

"""Which files are a goodput log, and the process that wrote an entry, as far as it or the name of its file tells."""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from ml_metrics.measure.lines import is_part_of

STEM = "goodput"
"""A log is in `goodput.jsonl`, or in a bucket in its parts."""

is_log = partial(is_part_of, STEM)
"""Whether a file is a log, or a part of one."""

_FILE = re.compile(r"(?:^|/)goodput\.\d{8}T\d+-(?P<host>[^/]+)-(?P<pid>\d{1,9})(?:\.\d+)?\.jsonl(?:\.gz)?$")
"""A recorder's own file, or one of its parts in a bucket."""


class Writer(NamedTuple):
    """A process that wrote entries."""

    file: str = ""
    """The file, without the number of its part."""
    host: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        return self.host or self.file.rpartition("/")[2]


UNKNOWN = Writer()


def writer_of(path: str) -> Writer:
    """Return what the name of a file tells about its writer: the recorder names files by time, host and process."""
    found = _FILE.search(path)
    if found is None:
        return Writer(path)
    return Writer(path[: found.end("pid")], found["host"], int(found["pid"]))

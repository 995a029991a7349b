"""Tables that `tpu-info` prints, of devices and of latencies, in any of its styles of borders."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.units import BYTES, PERCENT

if TYPE_CHECKING:
    from ml_metrics.collect.device_samples import DeviceSamples

BORDERS = "│┃|"
RULES = frozenset("┏┓┗┛┡┩└┘╭╮╰╯├┤╞╡━─═-+┳┴┬┻╇╕╪┼|: ")
"""The characters of lines between the rows of a table."""
CELLS = re.compile(r"\s*[│┃|]\s*|\s{2,}")
USED = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) GiB / (\d{1,6}(?:\.\d{1,6})?) GiB")
SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%")
AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) (us|ms|s|Mbps)")
PERCENTILE = re.compile(r"P\d{2,4}")
GIB = float(1 << 30)
MOST_SHARE = 100.0
SHARES = {"duty cycle": "tpu/duty_cycle", "tensorcore utilization": "tpu/tensorcore_utilization"}
MEMORY = frozenset({"hbm usage", "memory usage"})
WORDS = re.compile(r"[a-z0-9]+")
MAX_TITLE = 60


@dataclass(slots=True)
class TpuTables:
    """Reads the lines of one file, one after the other."""

    samples: DeviceSamples
    title: str = ""
    header: list[str] = field(default_factory=list)

    def add_line(self, line: str) -> bool:
        """Add a line. Return False if it belongs to no table and could not be the title of one."""
        text = line.strip()
        if not text or not set(text) - RULES:
            return True
        if text[0] not in BORDERS:
            self.title, self.header = text[: MAX_TITLE + 1], []
            return False
        cells = [cell for cell in CELLS.split(text.strip(BORDERS).strip()) if cell]
        names = [cell.partition("(")[0].strip().lower() for cell in cells]
        if any(name in SHARES or name in MEMORY for name in names) or any(map(PERCENTILE.fullmatch, cells)):
            self.header = names
        elif len(cells) == len(self.header):
            self._add_row(cells)
        return True

    def _add_row(self, cells: list[str]) -> None:
        for name, cell in zip(self.header, cells, strict=True):
            if name in MEMORY:
                self._add_memory(cell)
            elif name in SHARES:
                match = SHARE.fullmatch(cell)
                self._add(SHARES[name], PERCENT, float(match[1]) if match else None, MOST_SHARE)
            elif PERCENTILE.fullmatch(name.upper()):
                self._add_amount(cells[0] if self.header[0] != name else "", name, cell)

    def _add_memory(self, cell: str) -> None:
        match = USED.fullmatch(cell)
        if match is None:
            self.samples.not_available += 1
            return
        used, total = float(match[1]), float(match[2])
        if used > total:
            self.samples.impossible += 1
            return
        self.samples.add("tpu/memory_used", BYTES, used * GIB)
        self.samples.add("tpu/memory_total", BYTES, total * GIB)

    def _add_amount(self, row: str, percentile: str, cell: str) -> None:
        """Add a latency or a rate; its name is made of the title of the table, the row and the percentile."""
        match = AMOUNT.fullmatch(cell)
        if match is None or not self.title or len(self.title) > MAX_TITLE:
            self.samples.not_available += match is None
            return
        words = [word for word in WORDS.findall(self.title.lower()) if word != "tpu"]
        size = "".join(WORDS.findall(row.lower()))
        name = "/".join(filter(None, ["tpu", "_".join(words), size, percentile]))
        self.samples.add(name, match[2], float(match[1]))

    def _add(self, name: str, unit: str, value: float | None, most: float) -> None:
        if value is None:
            self.samples.not_available += 1
        elif value > most:
            self.samples.impossible += 1
        else:
            self.samples.add(name, unit, value)

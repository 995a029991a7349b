"""Devices while the job ran: what a program in the pod copied from the DCGM exporter or from `tpu-info` into files.

Nothing is requested from here: an address in a test file would let its author reach whatever the worker can reach.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.collect.dcgm_lines import add_line
from ml_metrics.collect.device_samples import DeviceSamples
from ml_metrics.collect.lines_file import LinesFile
from ml_metrics.collect.source import Found, Request
from ml_metrics.collect.tpu_lines import TpuTables
from ml_metrics.config.patterns import matches_file
from ml_metrics.limits import LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE = 4_000
"""The characters of a line that are read."""


def read(request: Request) -> Found:
    """Read the files that match the config's patterns: samples of all files and devices together."""
    options, samples = request.config.sources.devices, DeviceSamples()
    files = [file for file in request.files if matches_file(options.files, file.name)]
    warnings: list[str] = []
    for file in files:
        warnings += _read_file(LinesFile(file, request.allowance, check=_whole), samples)
    if files:
        warnings += _warnings(samples)
    return Found((), tuple(samples.metrics(options.prefix)), warnings, len(files), samples.metadata())


def _read_file(lines: LinesFile, samples: DeviceSamples) -> list[str]:
    seen = _Seen(TpuTables(samples), samples)
    with suppress(LimitReachedError):
        for block in lines.blocks():
            for line in block.decode("utf-8", "replace").splitlines():
                seen.add(line[:MAX_LINE])
    if not seen.known:
        lines.warn("has no lines of the DCGM exporter, and no table of tpu-info")
    return lines.warnings()


def _whole(line: bytes) -> None:
    """Refuse a last line without a line end: its number may be cut."""
    raise ValueError(f"{len(line)} bytes of an incomplete line")


@dataclass(slots=True)
class _Seen:
    """The lines of one file, and how many of them were of a known kind."""

    tables: TpuTables
    samples: DeviceSamples
    known: int = 0

    def add(self, line: str) -> None:
        if not line or line.startswith("#"):
            return
        if line.startswith("DCGM_"):
            self.known += add_line(line, self.samples)
        elif self.tables.add_line(line):
            self.known += bool(self.tables.header)


def _warnings(samples: DeviceSamples) -> Iterator[str]:
    if samples.impossible:
        yield f"devices: samples left out, outside the range of what they measure: {samples.impossible:,}"
    if samples.left_out:
        yield f"devices: samples left out, of more metrics or devices than are kept: {samples.left_out:,}"

"""Lines of NVIDIA's DCGM exporter, in the text format of Prometheus."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.core.model import Metric
from ml_metrics.core.units import BYTES, PERCENT
from ml_metrics.measure.lines import LinesFile
from ml_metrics.measure.source import AS_WRITTEN, Found, Request

if TYPE_CHECKING:
    from collections.abc import Iterator


LINE = re.compile(r"(DCGM_FI_[A-Z0-9_]{1,80})(?:\{([^}]*)\})?[ \t]+(\S{1,40})(?:[ \t]+\d{1,20})?[ \t]*")
LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]{0,40})="([^"\\]{0,200})"')
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NOT_AVAILABLE = frozenset({"N/A", "NaN", "+Inf", "-Inf", "Inf"})
DEVICE_LABELS = ("Hostname", "hostname", "UUID", "gpu", "GPU_I_ID")
"""The labels that tell devices apart."""
MOST_BLANK_INT32 = (2_147_483_632, 2_147_483_647)
"""The codes of DCGM for a 32-bit value that is not available, not found, not supported or not permitted."""
LEAST_BLANK = 140_737_488_355_328.0
"""The least of these codes for floating-point values; those of 64-bit integers, from 9223372036854775792, are above."""
MOST_XID = 10_000
MIB, MJ, SHARE = float(1 << 20), 1e-3, 100.0


@dataclass(frozen=True, slots=True)
class Field:
    """What a field of DCGM measures."""

    name: str
    unit: str
    factor: float = 1.0
    most: float = math.inf
    least: float = 0.0


GAUGES = {
    "DCGM_FI_DEV_GPU_UTIL": Field("gpu/utilization", PERCENT, most=100),
    "DCGM_FI_DEV_MEM_COPY_UTIL": Field("gpu/memory_copy_utilization", PERCENT, most=100),
    "DCGM_FI_DEV_FB_USED": Field("gpu/memory_used", BYTES, MIB, most=1e7),
    "DCGM_FI_DEV_GPU_TEMP": Field("gpu/temperature", "°C", most=250, least=-100),
    "DCGM_FI_DEV_MEMORY_TEMP": Field("gpu/memory_temperature", "°C", most=250, least=-100),
    "DCGM_FI_DEV_POWER_USAGE": Field("gpu/power", "W", most=1e5),
    "DCGM_FI_DEV_SM_CLOCK": Field("gpu/sm_clock", "MHz", most=1e5),
    "DCGM_FI_DEV_MEM_CLOCK": Field("gpu/memory_clock", "MHz", most=1e5),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Field("gpu/engine_active", PERCENT, SHARE, most=1),
    "DCGM_FI_PROF_SM_ACTIVE": Field("gpu/sm_active", PERCENT, SHARE, most=1),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": Field("gpu/tensor_active", PERCENT, SHARE, most=1),
    "DCGM_FI_PROF_DRAM_ACTIVE": Field("gpu/dram_active", PERCENT, SHARE, most=1),
}
COUNTERS = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Field("gpu/energy", "J", MJ),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": Field("gpu/pcie_replays", ""),
}
ERRORS = "DCGM_FI_DEV_XID_ERRORS"


def add_line(line: str, samples: DeviceSamples) -> bool:
    """Add a line. Return False if it is none of DCGM's."""
    match = LINE.fullmatch(line)
    if match is None:
        return False
    name, labels, text = match.groups()
    meaning = GAUGES.get(name) or COUNTERS.get(name)
    if meaning is None and name != ERRORS:
        return True
    value = float(text) if NUMBER.fullmatch(text) else None
    if text in NOT_AVAILABLE or (value is not None and _is_blank(value, name)):
        samples.not_available += 1
    elif value is None:
        return False
    elif meaning is None and not (value.is_integer() and 0 <= value <= MOST_XID):
        samples.impossible += 1
    elif meaning is None:
        samples.error(_device(labels or ""), int(value))
    elif not meaning.least <= value <= meaning.most:
        samples.impossible += 1
    elif name in GAUGES:
        samples.add(meaning.name, meaning.unit, value * meaning.factor)
    else:
        samples.count(meaning.name, meaning.unit, _device(labels or ""), value * meaning.factor)
    return True


def _is_blank(value: float, name: str) -> bool:
    """Whether a value is a code for one that is not available. A counter may pass through those of 32 bits."""
    low, high = MOST_BLANK_INT32
    return not math.isfinite(value) or value >= LEAST_BLANK or (low <= value <= high and name not in COUNTERS)


def _device(labels: str) -> str:
    found = dict(LABEL.findall(labels))
    return " ".join(found[name] for name in DEVICE_LABELS if found.get(name)) or "a device"


MAX_NAMES = 500
MAX_DEVICES = 20_000
MAX_CODES = 50


@dataclass(slots=True)
class _Gauge:
    unit: str
    count: int = 0
    total: float = 0.0
    largest: float = -math.inf


@dataclass(slots=True)
class _Counter:
    unit: str
    increase: float = 0.0
    count: int = 0
    last: dict[str, float] = field(default_factory=dict)
    """By device."""


@dataclass(slots=True)
class DeviceSamples:
    """What all devices reported, by name of the metric."""

    gauges: dict[str, _Gauge] = field(default_factory=dict)
    counters: dict[str, _Counter] = field(default_factory=dict)
    errors: dict[str, set[int]] = field(default_factory=dict)
    """The error codes of each device that reported any."""
    reports_errors: bool = False
    not_available: int = 0
    """Samples whose value is a code for one that is not available."""
    impossible: int = 0
    """Samples outside the range of what they measure."""
    left_out: int = 0
    """Samples of more metrics or devices than are kept."""

    def add(self, name: str, unit: str, value: float) -> None:
        """Add a sample of something that rises and falls."""
        gauge = self.gauges.get(name)
        if gauge is None:
            if len(self.gauges) >= MAX_NAMES:
                self.left_out += 1
                return
            gauge = self.gauges[name] = _Gauge(unit)
        gauge.count += 1
        gauge.total += value
        gauge.largest = max(gauge.largest, value)

    def count(self, name: str, unit: str, device: str, value: float) -> None:
        """Add the value of a counter. One that falls has begun anew."""
        counter = self.counters.setdefault(name, _Counter(unit))
        before = counter.last.get(device)
        if before is None and len(counter.last) >= MAX_DEVICES:
            self.left_out += 1
            return
        counter.last[device] = value
        counter.count += 1
        if before is not None:
            counter.increase += value - before if value >= before else value

    def error(self, device: str, code: int) -> None:
        """Add the last error code of a device; 0 is none."""
        self.reports_errors = True
        if not code:
            return
        codes = self.errors.get(device)
        if codes is None:
            if len(self.errors) >= MAX_DEVICES:
                self.left_out += 1
                return
            codes = self.errors[device] = set()
        if len(codes) < MAX_CODES:
            codes.add(code)

    def metrics(self, prefix: str) -> Iterator[Metric]:
        """Yield average and maximum of each gauge over all devices and samples, and the increase of each counter."""
        for name, gauge in self.gauges.items():
            for strategy, value in (("average", gauge.total / gauge.count), ("max", gauge.largest)):
                yield _metric(f"{prefix}{name}_{strategy}", value, gauge.unit, gauge.count)
        for name, counter in self.counters.items():
            yield _metric(f"{prefix}{name}", counter.increase, counter.unit, counter.count)
        if self.reports_errors:
            yield _metric(f"{prefix}gpu/devices_with_xid_errors", float(len(self.errors)), "", 1)

    def metadata(self) -> dict[str, str]:
        if not self.errors:
            return {}
        named = (f"{device}: {', '.join(map(str, sorted(codes)))}" for device, codes in sorted(self.errors.items()))
        return {"gpu_xid_errors": "; ".join(named)}


def _metric(name: str, value: float, unit: str, points: int) -> Metric:
    return Metric(name, value, name, AS_WRITTEN, points=points, unit=unit)


BORDERS = "│┃|"
RULES = frozenset("┏┓┗┛┡┩└┘╭╮╰╯├┤╞╡━─═-+┳┴┬┻╇╕╪┼|: ")
"""The characters of lines between the rows of a table."""
CELLS = re.compile(r"\s*[│┃|]\s*|\s{2,}")
USED = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) GiB / (\d{1,6}(?:\.\d{1,6})?) GiB")
TPU_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%")
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
                match = TPU_SHARE.fullmatch(cell)
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


MAX_LINE = 4_000
"""The characters of a line that are read."""


def read(request: Request) -> Found:
    """The samples of all files and devices together."""
    options, samples = request.config.sources.devices, DeviceSamples()
    files = [file for file in request.files if matches_file(options.files, file.name)]
    warnings: list[str] = []
    for file in files:
        warnings += _read_file(LinesFile(file, request.allowance, check=_whole), samples)
    if files:
        warnings += _warnings(samples)
    return Found((), tuple(samples.metrics(options.prefix)), warnings, len(files), samples.metadata())


def _read_file(lines: LinesFile, samples: DeviceSamples) -> list[str]:
    tables, known = TpuTables(samples), 0
    with suppress(LimitReachedError):
        for block in lines.blocks():
            for whole in block.decode("utf-8", "replace").splitlines():
                line = whole[:MAX_LINE]
                if line.startswith("DCGM_"):
                    known += add_line(line, samples)
                elif line and not line.startswith("#") and tables.add_line(line):
                    known += bool(tables.header)
    if not known:
        lines.warn("has no lines of the DCGM exporter, and no table of tpu-info")
    return lines.warnings()


def _whole(line: bytes) -> None:
    """Refuse a last line without a line end: its number may be cut."""
    raise ValueError(f"{len(line)} bytes of an incomplete line")


def _warnings(samples: DeviceSamples) -> Iterator[str]:
    if samples.impossible:
        yield f"devices: samples left out, outside the range of what they measure: {samples.impossible:,}"
    if samples.left_out:
        yield f"devices: samples left out, of more metrics or devices than are kept: {samples.left_out:,}"

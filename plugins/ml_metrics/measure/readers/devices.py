r"""GPUs and TPUs while a job ran: lines of NVIDIA's DCGM exporter, and tables of `tpu-info`.

DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",Hostname="n1"} 90
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0",Hostname="n1"} 79
TPU Runtime Utilization
┃ Chip ┃ HBM Usage (GiB)       ┃ Duty cycle ┃
│ 0    │ 18.45 GiB / 31.25 GiB │    100.00% │
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.model import Metric
from ml_metrics.core.units import BYTES, PERCENT
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.source import AS_WRITTEN, Found, Request

if TYPE_CHECKING:
    from collections.abc import Iterator


LINE = re.compile(r"(DCGM_FI_[A-Z0-9_]{1,80})(?:\{([^}]*)\})?[ \t]+(\S{1,40})(?:[ \t]+\d{1,20})?[ \t]*")
LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]{0,40})="([^"\\]{0,200})"')
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NOT_AVAILABLE = frozenset({"N/A", "NaN", "+Inf", "-Inf", "Inf"})
DEVICE_LABELS = ("Hostname", "hostname", "UUID", "gpu", "GPU_I_ID")
"""The labels that tell devices apart."""
LOW_BLANK, HIGH_BLANK = 2_147_483_632, 2_147_483_647
"""The codes of DCGM for a 32-bit value that is not available, not found, not supported or not permitted."""
LEAST_BLANK = 140_737_488_355_328.0
"""The least of these codes for floating-point values; those of 64-bit integers, from 9223372036854775792, are above."""
MOST_XID = 10_000
MIB, GIB = float(1 << 20), float(1 << 30)
ERRORS = "DCGM_FI_DEV_XID_ERRORS"
COUNTERS = ("gpu/energy", "gpu/pcie_replays")
MAX_NAMES, MAX_DEVICES, MAX_CODES = 500, 20_000, 50
MAX_LINE, MAX_TITLE = 4_000, 60
"""The characters of a line, and of the title of a table, that are read."""


class Field(NamedTuple):
    """What a field of DCGM measures."""

    name: str
    unit: str
    factor: float = 1.0
    most: float = math.inf
    least: float = 0.0


FIELDS = {
    "DCGM_FI_DEV_GPU_UTIL": Field("gpu/utilization", PERCENT, most=100),
    "DCGM_FI_DEV_MEM_COPY_UTIL": Field("gpu/memory_copy_utilization", PERCENT, most=100),
    "DCGM_FI_DEV_FB_USED": Field("gpu/memory_used", BYTES, MIB, most=1e7),
    "DCGM_FI_DEV_GPU_TEMP": Field("gpu/temperature", "°C", most=250, least=-100),
    "DCGM_FI_DEV_MEMORY_TEMP": Field("gpu/memory_temperature", "°C", most=250, least=-100),
    "DCGM_FI_DEV_POWER_USAGE": Field("gpu/power", "W", most=1e5),
    "DCGM_FI_DEV_SM_CLOCK": Field("gpu/sm_clock", "MHz", most=1e5),
    "DCGM_FI_DEV_MEM_CLOCK": Field("gpu/memory_clock", "MHz", most=1e5),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Field("gpu/engine_active", PERCENT, 100.0, most=1),
    "DCGM_FI_PROF_SM_ACTIVE": Field("gpu/sm_active", PERCENT, 100.0, most=1),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": Field("gpu/tensor_active", PERCENT, 100.0, most=1),
    "DCGM_FI_PROF_DRAM_ACTIVE": Field("gpu/dram_active", PERCENT, 100.0, most=1),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Field("gpu/energy", "J", 1e-3),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": Field("gpu/pcie_replays", ""),
}


def read(request: Request) -> Found:
    """The samples of all files and devices together."""
    options, samples, readings = request.config.sources.devices, DeviceSamples(), Readings(request.allowance)
    files = [file for file in request.files if matches_file(options.files, file.name)]
    readings.read_each(files, partial(_read_file, samples=samples))
    warnings = [
        f"devices: samples left out, {why}: {count:,}"
        for why, count in (
            ("outside the range of what they measure", samples.impossible),
            ("of more metrics or devices than are kept", samples.left_out),
        )
        if count
    ]
    metrics = tuple(samples.metrics(options.prefix))
    return Found((), metrics, [*readings.warnings, *warnings], len(files), samples.metadata())


def _read_file(found: Readings, samples: DeviceSamples) -> None:
    tables, known = TpuTables(samples), 0
    found.lines.check = _incomplete
    for whole in found.numbered_lines():
        line = whole[:MAX_LINE].decode("utf-8", "replace").strip("\r")
        if line.startswith("DCGM_"):
            known += add_line(line, samples)
        elif line and not line.startswith("#") and tables.add_line(line):
            known += bool(tables.header)
    if not known:
        found.lines.warn("has no lines of the DCGM exporter, and no table of tpu-info")


def _incomplete(_rest: bytes) -> None:
    raise ValueError("no line end: its number may be cut")


def add_line(line: str, samples: DeviceSamples) -> bool:
    """Add a line. Return False if it is none of DCGM's."""
    match = LINE.fullmatch(line)
    if match is None:
        return False
    name, labels, text = match.groups()
    known = FIELDS.get(name)
    if known is None and name != ERRORS:
        return True
    value = float(text) if NUMBER.fullmatch(text) else None
    is_counter = known is not None and known.name in COUNTERS  # which may pass through the codes of 32 bits
    if text in NOT_AVAILABLE or (
        value is not None
        and (not value < LEAST_BLANK or (LOW_BLANK <= value <= HIGH_BLANK and not is_counter) or value == -math.inf)
    ):
        samples.not_available += 1
        return True
    if value is None:
        return False
    given = dict(LABEL.findall(labels or ""))
    device = " ".join(given[one] for one in DEVICE_LABELS if given.get(one)) or "a device"
    if known is None:
        samples.error(device, value)
    elif not known.least <= value <= known.most:
        samples.impossible += 1
    elif is_counter:
        samples.count(known.name, known.unit, device, value * known.factor)
    else:
        samples.add(known.name, known.unit, value * known.factor)
    return True


@dataclass(slots=True)
class _Samples:
    """The samples of one gauge, or the increase of one counter."""

    unit: str
    count: int = 0
    total: float = 0.0
    largest: float = -math.inf
    last: dict[str, float] = field(default_factory=dict)
    """By device, of a counter."""


@dataclass(slots=True)
class DeviceSamples:
    """What all devices reported, by name of the metric."""

    gauges: dict[str, _Samples] = field(default_factory=dict)
    counters: dict[str, _Samples] = field(default_factory=dict)
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
        if name not in self.gauges and len(self.gauges) >= MAX_NAMES:
            self.left_out += 1
            return
        gauge = self.gauges.setdefault(name, _Samples(unit))
        gauge.count += 1
        gauge.total += value
        gauge.largest = max(gauge.largest, value)

    def count(self, name: str, unit: str, device: str, value: float) -> None:
        """Add the value of a counter. One that falls has begun anew."""
        counter = self.counters.setdefault(name, _Samples(unit))
        if device not in counter.last and len(counter.last) >= MAX_DEVICES:
            self.left_out += 1
            return
        before = counter.last.get(device, value)
        counter.last[device] = value
        counter.count += 1
        counter.total += value - before if value >= before else value

    def error(self, device: str, code: float) -> None:
        """Add the last error code of a device; 0 is none."""
        if not (code.is_integer() and 0 <= code <= MOST_XID):
            self.impossible += 1
            return
        self.reports_errors = True
        if code and device not in self.errors and len(self.errors) >= MAX_DEVICES:
            self.left_out += 1
        elif code and len(codes := self.errors.setdefault(device, set())) < MAX_CODES:
            codes.add(int(code))

    def metrics(self, prefix: str) -> Iterator[Metric]:
        """Yield average and maximum of each gauge over all devices and samples, and the increase of each counter."""
        found = []
        for name, one in self.gauges.items():
            found += [(f"{name}_average", one.total / one.count, one), (f"{name}_max", one.largest, one)]
        found += [(name, one.total, one) for name, one in self.counters.items()]
        if self.reports_errors:
            found.append(("gpu/devices_with_xid_errors", float(len(self.errors)), _Samples("", 1)))
        for name, value, one in found:
            full = f"{prefix}{name}"
            yield Metric(full, value, full, AS_WRITTEN, points=one.count, unit=one.unit)

    def metadata(self) -> dict[str, str]:
        named = (f"{device}: {', '.join(map(str, sorted(codes)))}" for device, codes in sorted(self.errors.items()))
        return {"gpu_xid_errors": "; ".join(named)} if self.errors else {}


BORDERS = "│┃|"
RULES = frozenset("┏┓┗┛┡┩└┘╭╮╰╯├┤╞╡━─═-+┳┴┬┻╇╕╪┼|: ")
"""The characters of lines between the rows of a table."""
CELLS = re.compile(r"\s*[│┃|]\s*|\s{2,}")
USED = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) GiB / (\d{1,6}(?:\.\d{1,6})?) GiB")
SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%")
AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) (us|ms|s|Mbps)")
PERCENTILE = re.compile(r"p\d{2,4}")
SHARES = {"duty cycle": "tpu/duty_cycle", "tensorcore utilization": "tpu/tensorcore_utilization"}
MEMORY = frozenset({"hbm usage", "memory usage"})
WORDS = re.compile(r"[a-z0-9]+")


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
        if any(name in SHARES or name in MEMORY or PERCENTILE.fullmatch(name) for name in names):
            self.header = names
        elif len(cells) == len(self.header):
            for name, cell in zip(self.header, cells, strict=True):
                self._add(name, cell, cells[0] if self.header[0] != name else "")
        return True

    def _add(self, name: str, cell: str, row: str) -> None:
        """Add a cell. The name of a latency or a rate is made of the title of the table, the row and the percentile."""
        samples = self.samples
        is_share, is_memory = name in SHARES, name in MEMORY
        if not (is_share or is_memory or PERCENTILE.fullmatch(name)):
            return
        match = (SHARE if is_share else USED if is_memory else AMOUNT).fullmatch(cell)
        if match is None:
            samples.not_available += 1
        elif (is_share and float(match[1]) > 100) or (is_memory and float(match[1]) > float(match[2])):
            samples.impossible += 1
        elif is_share:
            samples.add(SHARES[name], PERCENT, float(match[1]))
        elif is_memory:
            samples.add("tpu/memory_used", BYTES, float(match[1]) * GIB)
            samples.add("tpu/memory_total", BYTES, float(match[2]) * GIB)
        elif self.title and len(self.title) <= MAX_TITLE:
            words = [word for word in WORDS.findall(self.title.lower()) if word != "tpu"]
            size = "".join(WORDS.findall(row.lower()))
            full = "/".join(filter(None, ["tpu", "_".join(words), size, name]))
            samples.add(full, match[2], float(match[1]))

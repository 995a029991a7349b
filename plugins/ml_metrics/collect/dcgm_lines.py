"""Lines of NVIDIA's DCGM exporter, in the text format of Prometheus."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.units import BYTES, PERCENT

if TYPE_CHECKING:
    from ml_metrics.collect.device_samples import DeviceSamples

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

"""The accelerators that a test can use.

A test gives a name, like `cpu`, `t4`, `h100x8`, `v5litepod-16` or `v6e-8`, or a mapping:
`{tpu: {version: v5e, topology: 4x4}}`, `{tpu: {version: v6e, chips: 8}}`, `{gpu: {type: h100, count: 8}}`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from ml_metrics.config.accelerator import CPU, GPUS, TPUS, Accelerator, Tpu
from ml_metrics.config.problems import did_you_mean


@cache
def catalogue() -> dict[str, Accelerator]:
    """Return every accelerator that has a name, by name."""
    gpus = [gpu.times(count) for gpu in GPUS.values() for count in gpu.counts]
    tpus = [tpu.slice(chips) for tpu in TPUS.values() for chips in tpu.topologies]
    return {made.name: made for made in (CPU, *gpus, *tpus)}


@cache
def chips() -> tuple[str, ...]:
    """Return the types of chips: that of each accelerator is in its `chip`."""
    return (CPU.chip, *GPUS, *TPUS)


def accelerator(value: Any) -> Accelerator:
    """Return the accelerator that a test names or describes. Raises ValueError with a suggestion."""
    if isinstance(value, Accelerator):
        return value
    if isinstance(value, str):
        return _by_name(value)
    if isinstance(value, dict) and len(value) == 1:
        kind, details = next(iter(value.items()))
        if kind in _DESCRIBED and isinstance(details, dict):
            return _DESCRIBED[kind](details)
    raise ValueError(
        f"{value!r} is not an accelerator; give a name like v5litepod-16, or {{tpu: {{...}}}} or {{gpu: {{...}}}}"
    )


AcceleratorField = Annotated[Accelerator, PlainValidator(accelerator), PlainSerializer(str)]


def _by_name(name: str) -> Accelerator:
    if name in catalogue():
        return catalogue()[name]
    bare = name.removeprefix("tpu-").removeprefix("nvidia-")
    gpu, _, count = bare.partition("x")
    if gpu in GPUS and count.isdecimal():
        return GPUS[gpu].times(int(count))
    for tpu in TPUS.values():
        for prefix in (tpu.prefix, *tpu.aliases):
            match = re.fullmatch(rf"{re.escape(prefix)}([0-9]+)(?:-([0-9x]+))?", bare)
            if match:
                return _named_slice(tpu, int(match[1]), match[2], name)
    raise ValueError(f"{name!r} is not an accelerator{_nearest(name)}")


def _named_slice(tpu: Tpu, number: int, topology: str | None, name: str) -> Accelerator:
    chips, rest = divmod(number, tpu.cores_per_chip)
    if topology:
        found = tpu.with_topology(topology)
        if rest or found.count != chips:
            raise ValueError(f"{name!r} contradicts itself: {topology} has {found.count} chips")
        return found
    if rest or chips not in tpu.topologies:
        raise ValueError(f"{name!r} does not exist; available: {', '.join(tpu.names())}")
    return tpu.slice(chips)


def _gpu(details: dict[str, Any]) -> Accelerator:
    _check_keys(details, "gpu", ("type", "count"))
    name, count = details.get("type"), details.get("count", 1)
    if name not in GPUS:
        raise ValueError(f"{name!r} is not a type of GPU; available: {', '.join(GPUS)}{did_you_mean(str(name), GPUS)}")
    return GPUS[name].times(_positive(count, "count"))


def _tpu(details: dict[str, Any]) -> Accelerator:
    _check_keys(details, "tpu", ("version", "topology", "chips"))
    version = details.get("version")
    if version not in TPUS:
        versions = ", ".join(TPUS)
        raise ValueError(
            f"{version!r} is not a version of TPU; available: {versions}{did_you_mean(str(version), TPUS)}"
        )
    if ("topology" in details) == ("chips" in details):
        raise ValueError(f"the {version} slice has no size: give either topology or chips")
    tpu = TPUS[version]
    if "topology" in details:
        return tpu.with_topology(details["topology"])
    return tpu.slice(_positive(details["chips"], "chips"))


_DESCRIBED = {"gpu": _gpu, "tpu": _tpu}


def _check_keys(details: dict[str, Any], kind: str, valid: tuple[str, ...]) -> None:
    for key in details:
        if key not in valid:
            raise ValueError(
                f"unknown key {key!r} of {kind}; valid keys: {', '.join(valid)}{did_you_mean(str(key), valid)}"
            )


def _positive(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} should be a whole number from 1 up, not {value!r}")
    return value


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, catalogue(), n=3, cutoff=0.5)
    if not near:
        slices = ", ".join(tpu.names()[1] for tpu in TPUS.values())
        return f"; available: cpu, {', '.join(GPUS)} (and x2, x4, x8), and slices like {slices}"
    return f"; did you mean {' or '.join(map(repr, near))}?"

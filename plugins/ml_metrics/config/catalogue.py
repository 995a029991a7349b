"""The accelerators that a test can name.

By name, as people say them: `cpu`, `t4`, `h100x8`, `v5litepod-16`, `v6e-8`; or by a mapping:
`{tpu: {version: v5e, topology: 4x4}}`, `{tpu: {version: v6e, chips: 8}}`, `{gpu: {type: h100, count: 8}}`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from ml_metrics.config.accelerator import CPU, Accelerator
from ml_metrics.config.gpus import GPUS
from ml_metrics.config.problems import did_you_mean
from ml_metrics.config.tpus import TPUS, Tpu


@cache
def catalogue() -> dict[str, Accelerator]:
    """Every accelerator that has a name of its own, by that name."""
    gpus = [gpu.times(count) for gpu in GPUS.values() for count in gpu.counts]
    tpus = [tpu.slice(chips) for tpu in TPUS.values() for chips in tpu.topologies]
    return {made.name: made for made in (CPU, *gpus, *tpus)}


def accelerator(value: Any) -> Accelerator:
    """The accelerator that a test names or describes. Raises ValueError with the nearest that there is."""
    if isinstance(value, Accelerator):
        return value
    if isinstance(value, str):
        return _by_name(value)
    if isinstance(value, dict) and len(value) == 1:
        kind, details = next(iter(value.items()))
        if kind in _DESCRIBED and isinstance(details, dict):
            return _DESCRIBED[kind](details)
    raise ValueError(
        f"{value!r} is no accelerator; write a name like v5litepod-16, or {{tpu: {{...}}}} or {{gpu: {{...}}}}"
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
    raise ValueError(f"{name!r} is no accelerator{_nearest(name)}")


def _named_slice(tpu: Tpu, number: int, topology: str | None, name: str) -> Accelerator:
    chips, rest = divmod(number, tpu.cores_per_chip)
    if topology:
        found = tpu.arranged(topology)
        if rest or found.count != chips:
            raise ValueError(f"{name!r} contradicts itself: {topology} has {found.count} chips")
        return found
    if rest or chips not in tpu.topologies:
        raise ValueError(f"there is no {name!r}; there are {', '.join(tpu.names())}")
    return tpu.slice(chips)


def _gpu(details: dict[str, Any]) -> Accelerator:
    _only(details, "gpu", ("type", "count"))
    name, count = details.get("type"), details.get("count", 1)
    if name not in GPUS:
        raise ValueError(f"{name!r} is no type of GPU; there are {', '.join(GPUS)}{did_you_mean(str(name), GPUS)}")
    return GPUS[name].times(_whole(count, "count"))


def _tpu(details: dict[str, Any]) -> Accelerator:
    _only(details, "tpu", ("version", "topology", "chips"))
    version = details.get("version")
    if version not in TPUS:
        known = ", ".join(TPUS)
        raise ValueError(f"{version!r} is no version of TPU; there are {known}{did_you_mean(str(version), TPUS)}")
    if ("topology" in details) == ("chips" in details):
        raise ValueError(f"say how large the {version} slice is: give either topology or chips")
    tpu = TPUS[version]
    if "topology" in details:
        return tpu.arranged(details["topology"])
    return tpu.slice(_whole(details["chips"], "chips"))


_DESCRIBED = {"gpu": _gpu, "tpu": _tpu}


def _only(details: dict[str, Any], kind: str, known: tuple[str, ...]) -> None:
    for key in details:
        if key not in known:
            raise ValueError(
                f"unknown key {key!r} of {kind}, which has {', '.join(known)}{did_you_mean(str(key), known)}"
            )


def _whole(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} should be a whole number of at least 1, not {value!r}")
    return value


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, catalogue(), n=3, cutoff=0.5)
    if not near:
        slices = ", ".join(tpu.names()[1] for tpu in TPUS.values())
        return f"; there are cpu, {', '.join(GPUS)} (and x2, x4, x8) and slices like {slices}"
    return f"; did you mean {' or '.join(map(repr, near))}?"

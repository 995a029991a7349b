"""The accelerators that a test can name, and what each asks of a cluster.

Names as people say them: `cpu`, `t4`, `h100x8`, `v5litepod-16`, `v6e-8`; or a mapping, where the topology or the
kind of machine matters: `{tpu: {version: v5e, topology: 4x4}}`, `{gpu: {type: h100, count: 8}}`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainValidator

from ml_metrics.spec.problems import did_you_mean


class Kind(StrEnum):
    """The families of accelerators."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What a test runs on, and what its pods ask for."""

    name: str
    """As in the test's name: `cpu`, `h100x8`, `v5litepod-16`."""
    kind: Kind
    count: int = 0
    """Chips or GPUs in all hosts together."""
    hosts: int = 1
    resource: str | None = None
    """The Kubernetes resource that is counted: `nvidia.com/gpu`."""
    per_host: int = 0
    """How many of it one pod asks for."""
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()
    topology: str | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Gpu:
    """A type of NVIDIA GPU."""

    name: str
    gke_label: str
    counts: tuple[int, ...]
    """How many one machine can have."""

    def times(self, count: int, name: str | None = None) -> Accelerator:
        """So many of them in one machine."""
        if count not in self.counts:
            raise ValueError(f"a machine has {_listed(self.counts)} of {self.name}, not {count}")
        return Accelerator(
            name=name or (self.name if count == 1 else f"{self.name}x{count}"),
            kind=Kind.GPU,
            count=count,
            resource="nvidia.com/gpu",
            per_host=count,
            node_selector={"cloud.google.com/gke-accelerator": self.gke_label},
            tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
        )


@dataclass(frozen=True, slots=True)
class Tpu:
    """A generation of Cloud TPU."""

    version: str
    prefix: str
    """What stands before the number in a name: `v5litepod-`."""
    gke_label: str
    cores_per_chip: int
    """Names of some generations count cores, of others chips (then 1)."""
    topologies: dict[int, str]
    """The usual topology for a number of chips."""
    single_host: tuple[int, ...] = (4,)
    """How many chips one machine can have; more than the last of them make a slice of several hosts of four."""
    aliases: tuple[str, ...] = ()

    def slice(self, chips: int, topology: str | None = None, name: str | None = None) -> Accelerator:
        """A slice of so many chips."""
        usual = self.topologies.get(chips)
        topology = topology or usual
        if topology is None:
            raise ValueError(
                f"there is no {self.prefix}{chips * self.cores_per_chip}; there are {_listed(self.names())}"
            )
        hosts, per_host = (1, chips) if chips in self.single_host else (chips // 4, 4)
        own = f"{self.prefix}{chips * self.cores_per_chip}"
        return Accelerator(
            name=name or (own if topology == usual else f"{own}-{topology}"),
            kind=Kind.TPU,
            count=chips,
            hosts=hosts,
            resource="google.com/tpu",
            per_host=per_host,
            node_selector={
                "cloud.google.com/gke-tpu-accelerator": self.gke_label,
                "cloud.google.com/gke-tpu-topology": topology,
            },
            tolerations=({"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"},),
            topology=topology,
        )

    def names(self) -> tuple[str, ...]:
        """Every slice that has a usual topology."""
        return tuple(f"{self.prefix}{chips * self.cores_per_chip}" for chips in self.topologies)


_FLAT = {4: "2x2", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16", 512: "16x32", 1024: "32x32"}
_FLAT_V5E = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBES = {
    4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8", 256: "4x8x8", 512: "8x8x8",
    1024: "8x8x16", 2048: "8x16x16",
}  # fmt: skip

GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("t4", "nvidia-tesla-t4", (1, 2, 4)),
        Gpu("l4", "nvidia-l4", (1, 2, 4, 8)),
        Gpu("v100", "nvidia-tesla-v100", (1, 2, 4, 8)),
        Gpu("a100", "nvidia-tesla-a100", (1, 2, 4, 8, 16)),
        Gpu("a100-80gb", "nvidia-a100-80gb", (1, 2, 4, 8)),
        Gpu("h100", "nvidia-h100-80gb", (1, 2, 4, 8)),
        Gpu("h100-mega", "nvidia-h100-mega-80gb", (8,)),
        Gpu("h200", "nvidia-h200-141gb", (8,)),
        Gpu("b200", "nvidia-b200", (8,)),
    )
}
TPUS = {
    tpu.version: tpu
    for tpu in (
        Tpu("v2", "v2-", "tpu-v2-podslice", 2, {c: t for c, t in _FLAT.items() if c <= 256}),
        Tpu("v3", "v3-", "tpu-v3-slice", 2, _FLAT),
        Tpu("v4", "v4-", "tpu-v4-podslice", 2, {**_CUBES, 4096: "16x16x16"}),
        Tpu("v5e", "v5litepod-", "tpu-v5-lite-podslice", 1, _FLAT_V5E, (1, 4, 8), ("v5e-", "v5lite-")),
        Tpu("v5p", "v5p-", "tpu-v5p-slice", 2, {**_CUBES, 4096: "16x16x16", 6144: "16x16x24"}),
        Tpu("v6e", "v6e-", "tpu-v6e-slice", 1, _FLAT_V5E, (1, 4, 8), ("trillium-",)),
        Tpu("7x", "tpu7x-", "tpu7x", 2, {1: "1x1x1", **_CUBES, 4096: "16x16x16"}, (1, 4), ("v7x-", "7x-")),
    )
}
CPU = Accelerator("cpu", Kind.CPU)


def catalogue() -> dict[str, Accelerator]:
    """Every accelerator that has a name, by its name."""
    found = {"cpu": CPU}
    for gpu in GPUS.values():
        found |= {made.name: made for made in map(gpu.times, gpu.counts)}
    for tpu in TPUS.values():
        found |= {made.name: made for made in map(tpu.slice, tpu.topologies)}
    return found


def accelerator(value: Any) -> Accelerator:
    """The accelerator that a test file names. Raises ValueError with the nearest names."""
    if isinstance(value, Accelerator):
        return value
    if isinstance(value, str):
        return _by_name(value)
    if isinstance(value, dict) and len(value) == 1:
        kind, details = next(iter(value.items()))
        if kind in _BY_MAPPING and isinstance(details, dict):
            return _BY_MAPPING[kind](details)
    raise ValueError(
        f"{value!r} is no accelerator; write a name like 'v5litepod-16', {{tpu: {{...}}}} or {{gpu: {{...}}}}"
    )


AcceleratorField = Annotated[Accelerator, PlainValidator(accelerator)]


def _by_name(name: str) -> Accelerator:
    if name == "cpu":
        return CPU
    if match := re.fullmatch(r"([a-z0-9-]*?[a-z][a-z0-9-]*?)(?:x([0-9]+))?", name):
        gpu = GPUS.get(match[1]) or GPUS.get(match[1].removeprefix("nvidia-"))
        if gpu:
            return gpu.times(int(match[2] or 1))
    for tpu in TPUS.values():
        for prefix in (tpu.prefix, *tpu.aliases):
            number = name.removeprefix("tpu-").removeprefix(prefix)
            if number.isdecimal() and name.endswith(prefix + number):
                return _named_slice(tpu, int(number), name)
    raise ValueError(f"{name!r} is no accelerator{did_you_mean(name, catalogue())}")


def _named_slice(tpu: Tpu, number: int, name: str) -> Accelerator:
    chips, rest = divmod(number, tpu.cores_per_chip)
    if rest or chips not in tpu.topologies:
        raise ValueError(f"there is no {name!r}; there are {_listed(tpu.names())}")
    return tpu.slice(chips)


def _gpu(details: dict[str, Any]) -> Accelerator:
    _only(details, "gpu", ("type", "count"))
    name = details.get("type")
    if name not in GPUS:
        raise ValueError(f"{name!r} is no type of GPU{did_you_mean(str(name), GPUS)}; there are {_listed(GPUS)}")
    count = details.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool):
        raise ValueError(f"the count of GPUs must be a whole number, not {count!r}")  # noqa: TRY004  (pydantic catches ValueError)
    return GPUS[name].times(count)


def _tpu(details: dict[str, Any]) -> Accelerator:
    _only(details, "tpu", ("version", "topology", "chips"))
    version = details.get("version")
    if version not in TPUS:
        raise ValueError(
            f"{version!r} is no version of TPU{did_you_mean(str(version), TPUS)}; there are {_listed(TPUS)}"
        )
    tpu, topology = TPUS[version], details.get("topology")
    if topology is None:
        return tpu.slice(int(details.get("chips", tpu.single_host[-1])))
    usual = next(iter(tpu.topologies.values()))
    if not isinstance(topology, str) or not re.fullmatch(r"[1-9][0-9]*(x[1-9][0-9]*)+", topology):
        raise ValueError(f"{topology!r} is no topology; write for example {usual!r}")
    sides = [int(side) for side in topology.split("x")]
    if len(sides) != usual.count("x") + 1:
        raise ValueError(f"a topology of {version} has {usual.count('x') + 1} sides, like {usual!r}, not {topology!r}")
    chips = math.prod(sides)
    if chips not in tpu.single_host and chips % 4:
        raise ValueError(f"{topology!r} makes {chips} chips; hosts of a slice have 4 chips each")
    if details.get("chips", chips) != chips:
        raise ValueError(f"{topology!r} makes {chips} chips, not {details['chips']}")
    return tpu.slice(chips, topology)


_BY_MAPPING = {"gpu": _gpu, "tpu": _tpu}


def _only(details: dict[str, Any], kind: str, known: tuple[str, ...]) -> None:
    for key in details:
        if key not in known:
            raise ValueError(
                f"unknown key {key!r} of {kind}{did_you_mean(str(key), known)}; there are {_listed(known)}"
            )


def _listed(words: Any) -> str:
    return ", ".join(map(str, words))

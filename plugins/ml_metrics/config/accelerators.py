"""The accelerators that tests run on, and the Kubernetes resources and GKE labels of each."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator

from ml_metrics.core.text import did_you_mean

T = TypeVar("T")
_GPU_RESOURCE, _TPU_RESOURCE = "nvidia.com/gpu", "google.com/tpu"
CHIPS_PER_HOST = 4
"""In multi-host slices of every generation."""


class Kind(StrEnum):
    """A family of accelerators."""

    CPU = "cpu"
    GPU = "gpu"
    TPU = "tpu"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An entry of the catalogue, or an accelerator that a test describes itself."""

    name: str
    """As in the name of the test: `cpu`, `h100x8`, `v5litepod-16`."""
    kind: Kind
    count: int = 0
    """Chips or GPUs of all hosts together."""
    hosts: int = 1
    """Number of pods, one for each host."""
    resource: str | None = None
    """The Kubernetes resource, like `nvidia.com/gpu`."""
    per_host: int = 0
    """How many of the resource each pod requests."""
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, str], ...] = ()
    topology: str | None = None
    """The topology of a TPU slice, like `4x4`."""
    chip: str = "cpu"
    """The type of its chips, whatever their number: `h100`, `v5e`; `cpu` for a host without accelerators."""

    def __str__(self) -> str:
        return self.name


CPU = Accelerator("cpu", Kind.CPU)


def toleration(resource: str) -> dict[str, str]:
    return {"key": resource, "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A type of GPU."""

    name: str
    gke_label: str
    counts: tuple[int, ...]
    """The possible numbers in one machine."""

    def times(self, count: int) -> Accelerator:
        if count not in self.counts:
            raise ValueError(f"a machine can have {', '.join(map(str, self.counts))} of {self.name}, not {count}")
        return Accelerator(
            name=self.name if count == 1 else f"{self.name}x{count}",
            kind=Kind.GPU,
            count=count,
            resource=_GPU_RESOURCE,
            per_host=count,
            node_selector={"cloud.google.com/gke-accelerator": self.gke_label},
            tolerations=(toleration(_GPU_RESOURCE),),
            chip=self.name,
        )


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


@dataclass(frozen=True, slots=True)
class Tpu:
    """A generation of Cloud TPU."""

    version: str
    prefix: str
    """The name before its number: `v5litepod-`."""
    gke_label: str
    topologies: dict[int, str]
    """The default topology for each number of chips."""
    cores_per_chip: int = 1
    """2 if the number in the name counts cores, not chips."""
    one_host: tuple[int, ...] = (CHIPS_PER_HOST,)
    """Numbers of chips of a single-host slice."""
    one_host_label: str | None = None
    """The GKE label of a single-host slice, if it differs."""
    max_chips: int = 0
    """The size of the largest slice, if other topologies than the defaults are possible."""
    aliases: tuple[str, ...] = ()
    nodes: bool = False
    """Whether it is a TPU node: a resource that is reached over the network, from before GKE had TPU machines."""

    def slice(self, chips: int, topology: str | None = None) -> Accelerator:
        usual = self.topologies.get(chips)
        topology = topology or usual
        own = f"{self.prefix}{chips * self.cores_per_chip}"
        if topology is None:
            raise ValueError(f"{own!r} does not exist; available: {', '.join(self.names())}")
        if self.nodes:
            resource = f"cloud-tpus.google.com/{self.version}"
            made = Accelerator(own, Kind.TPU, chips, resource=resource, topology=topology, chip=self.version)
            return replace(made, per_host=chips * self.cores_per_chip)
        alone = chips in self.one_host
        label = (self.one_host_label if alone else None) or self.gke_label
        return Accelerator(
            name=own if topology == usual else f"{own}-{topology}",
            kind=Kind.TPU,
            count=chips,
            hosts=1 if alone else chips // CHIPS_PER_HOST,
            resource=_TPU_RESOURCE,
            per_host=chips if alone else CHIPS_PER_HOST,
            node_selector={
                "cloud.google.com/gke-tpu-accelerator": label,
                "cloud.google.com/gke-tpu-topology": topology,
            },
            tolerations=(toleration(_TPU_RESOURCE),),
            topology=topology,
            chip=self.version,
        )

    def with_topology(self, topology: object) -> Accelerator:
        usual = ", ".join(self.topologies.values())
        if topology in self.topologies.values():
            return self.slice(next(chips for chips, known in self.topologies.items() if known == topology))
        if not isinstance(topology, str) or not re.fullmatch(r"[1-9][0-9]*(?:x[1-9][0-9]*){2}", topology):
            raise ValueError(f"{topology!r} is not a topology of {self.version}; available: {usual}")
        sides = [int(side) for side in topology.split("x")]
        chips = math.prod(sides)
        is_small = chips <= 64
        fits = all(side in {2, 4} if is_small else side % 4 == 0 for side in sides)
        if chips > self.max_chips or sides != sorted(sides) or not fits:
            rule = "; others have ascending sides that are multiples of 4" if self.max_chips else ""
            raise ValueError(f"{topology!r} is not a topology of {self.version}; available: {usual}{rule}")
        return self.slice(chips, topology)

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{chips * self.cores_per_chip}" for chips in self.topologies)


_SQUARES = {4: "2x2", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16", 512: "16x32", 1024: "32x32"}
_E_SQUARES = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBES = {
    4: "2x2x1", 8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8", 256: "4x8x8", 512: "8x8x8",
    1024: "8x8x16", 2048: "8x16x16", 4096: "16x16x16",
}  # fmt: skip
_V2_CHIPS = (4, 16, 64, 128, 256)

TPUS = {
    tpu.version: tpu
    for tpu in (
        Tpu("v2", "v2-", "", {chips: _SQUARES[chips] for chips in _V2_CHIPS}, cores_per_chip=2, nodes=True),
        Tpu("v3", "v3-", "tpu-v3-slice", _SQUARES, cores_per_chip=2, one_host_label="tpu-v3-device"),
        Tpu("v4", "v4-", "tpu-v4-podslice", _CUBES, cores_per_chip=2, max_chips=4096),
        Tpu("v5e", "v5litepod-", "tpu-v5-lite-podslice", _E_SQUARES, one_host=(1, 4, 8), aliases=("v5e-", "v5lite-")),
        Tpu("v5p", "v5p-", "tpu-v5p-slice", {**_CUBES, 6144: "16x16x24"}, cores_per_chip=2, max_chips=6144),
        Tpu("v6e", "v6e-", "tpu-v6e-slice", _E_SQUARES, one_host=(1, 4, 8), aliases=("trillium-",)),
        Tpu(
            "7x", "tpu7x-", "tpu7x", {1: "1x1x1", **_CUBES, 9216: "16x16x36"},
            cores_per_chip=2, one_host=(1, 4), max_chips=9216, aliases=("v7x-", "7x-", "ironwood-"),
        ),
    )
}  # fmt: skip


@cache
def catalogue() -> dict[str, Accelerator]:
    gpus = [gpu.times(count) for gpu in GPUS.values() for count in gpu.counts]
    tpus = [tpu.slice(chips) for tpu in TPUS.values() for chips in tpu.topologies]
    return {made.name: made for made in (CPU, *gpus, *tpus)}


@cache
def chips() -> tuple[str, ...]:
    return (CPU.chip, *GPUS, *TPUS)


def accelerator(value: Any) -> Accelerator:
    """Raises ValueError with a suggestion."""
    if isinstance(value, Accelerator):
        return value
    if isinstance(value, str):
        return _by_name(value)
    match value:
        case {"gpu": dict() as details, **others} if not others:
            _check_keys(details, "gpu", ("type", "count"))
            gpu = _known(details.get("type"), "type of GPU", GPUS)
            return gpu.times(_positive(details.get("count", 1), "count"))
        case {"tpu": dict() as details, **others} if not others:
            _check_keys(details, "tpu", ("version", "topology", "chips"))
            tpu = _known(details.get("version"), "version of TPU", TPUS)
            if ("topology" in details) == ("chips" in details):
                raise ValueError(f"the {tpu.version} slice has no size: give either topology or chips")
            if "topology" in details:
                return tpu.with_topology(details["topology"])
            return tpu.slice(_positive(details["chips"], "chips"))
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
    near = get_close_matches(name, catalogue(), n=3, cutoff=0.5)
    slices = ", ".join(tpu.names()[1] for tpu in TPUS.values())
    available = f"available: cpu, {', '.join(GPUS)} (and x2, x4, x8), and slices like {slices}"
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else available
    raise ValueError(f"{name!r} is not an accelerator; {hint}")


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


def _known(name: Any, what: str, known: dict[str, T]) -> T:
    if not isinstance(name, str) or name not in known:
        near = did_you_mean(str(name), known)
        raise ValueError(f"{name!r} is not a {what}; available: {', '.join(known)}{near}")
    return known[name]


def _check_keys(details: dict[str, Any], kind: str, valid: tuple[str, ...]) -> None:
    for key in details:
        if key not in valid:
            near = did_you_mean(str(key), valid)
            raise ValueError(f"unknown key {key!r} of {kind}; valid keys: {', '.join(valid)}{near}")


def _positive(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} should be a whole number from 1 up, not {value!r}")
    return value

"""Cloud TPUs: their slices, topologies and hosts, and GKE's labels for them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ml_metrics.config.accelerator import Accelerator, Kind, toleration

RESOURCE = "google.com/tpu"
CHIPS_PER_HOST = 4
"""In every slice of several hosts, of every generation."""
SMALL_CUBE = 64
"""Up to so many chips, a side of a three-dimensional slice may be two."""


@dataclass(frozen=True, slots=True)
class Tpu:
    """A generation of Cloud TPU."""

    version: str
    prefix: str
    """What stands before the number in a name: `v5litepod-`."""
    gke_label: str
    topologies: dict[int, str]
    """The usual topology for a number of chips."""
    cores_per_chip: int = 1
    """2 where the number in a name counts cores."""
    one_host: tuple[int, ...] = (CHIPS_PER_HOST,)
    """How many chips one host can have by itself."""
    one_host_label: str | None = None
    """GKE's label of one host by itself, where it differs."""
    largest: int = 0
    """Chips of the largest slice, where a slice may have other than the usual topologies."""
    aliases: tuple[str, ...] = ()
    nodes: bool = False
    """Before GKE had machines with TPUs, a TPU was a resource that is reached over the network."""

    def slice(self, chips: int, topology: str | None = None) -> Accelerator:
        """A slice of so many chips."""
        usual = self.topologies.get(chips)
        topology = topology or usual
        own = f"{self.prefix}{chips * self.cores_per_chip}"
        if topology is None:
            raise ValueError(f"there is no {own}; there are {', '.join(self.names())}")
        if self.nodes:
            resource = f"cloud-tpus.google.com/{self.version}"
            cores = chips * self.cores_per_chip
            return Accelerator(own, Kind.TPU, chips, resource=resource, per_host=cores, topology=topology)
        alone = chips in self.one_host
        label = (self.one_host_label if alone else None) or self.gke_label
        return Accelerator(
            name=own if topology == usual else f"{own}-{topology}",
            kind=Kind.TPU,
            count=chips,
            hosts=1 if alone else chips // CHIPS_PER_HOST,
            resource=RESOURCE,
            per_host=chips if alone else CHIPS_PER_HOST,
            node_selector={
                "cloud.google.com/gke-tpu-accelerator": label,
                "cloud.google.com/gke-tpu-topology": topology,
            },
            tolerations=(toleration(RESOURCE),),
            topology=topology,
        )

    def arranged(self, topology: object) -> Accelerator:
        """A slice of this topology."""
        usual = ", ".join(self.topologies.values())
        if topology in self.topologies.values():
            return self.slice(next(chips for chips, known in self.topologies.items() if known == topology))
        if not isinstance(topology, str) or not re.fullmatch(r"[1-9][0-9]*(?:x[1-9][0-9]*){2}", topology):
            raise ValueError(f"{topology!r} is no topology of {self.version}; there are {usual}")
        sides = [int(side) for side in topology.split("x")]
        chips = math.prod(sides)
        allowed = chips <= self.largest and sides == sorted(sides)
        fits = all(side in {2, 4} for side in sides) if chips <= SMALL_CUBE else all(side % 4 == 0 for side in sides)
        if not allowed or not fits:
            rule = "; others have sides in order, multiples of 4" if self.largest else ""
            raise ValueError(f"{topology!r} is no topology of {self.version}; there are {usual}{rule}")
        return self.slice(chips, topology)

    def names(self) -> tuple[str, ...]:
        """Every slice that has a usual topology."""
        return tuple(f"{self.prefix}{chips * self.cores_per_chip}" for chips in self.topologies)


_SQUARES = {4: "2x2", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16", 512: "16x32", 1024: "32x32"}
_E_SQUARES = {1: "1x1", 4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBES = dict(
    zip(
        (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
        "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16 16x16x16".split(),  # noqa: SIM905  (reads better)
        strict=True,
    )
)
_V2_CHIPS = (4, 16, 64, 128, 256)

TPUS = {
    tpu.version: tpu
    for tpu in (
        Tpu("v2", "v2-", "", {chips: _SQUARES[chips] for chips in _V2_CHIPS}, cores_per_chip=2, nodes=True),
        Tpu("v3", "v3-", "tpu-v3-slice", _SQUARES, cores_per_chip=2, one_host_label="tpu-v3-device"),
        Tpu("v4", "v4-", "tpu-v4-podslice", _CUBES, cores_per_chip=2, largest=4096),
        Tpu(
            "v5e",
            "v5litepod-",
            "tpu-v5-lite-podslice",
            _E_SQUARES,
            one_host=(1, 4, 8),
            aliases=("v5e-", "v5lite-"),
        ),
        Tpu("v5p", "v5p-", "tpu-v5p-slice", {**_CUBES, 6144: "16x16x24"}, cores_per_chip=2, largest=6144),
        Tpu("v6e", "v6e-", "tpu-v6e-slice", _E_SQUARES, one_host=(1, 4, 8), aliases=("trillium-",)),
        Tpu(
            "7x",
            "tpu7x-",
            "tpu7x",
            {1: "1x1x1", **_CUBES, 9216: "16x16x36"},
            cores_per_chip=2,
            one_host=(1, 4),
            largest=9216,
            aliases=("v7x-", "7x-", "ironwood-"),
        ),
    )
}

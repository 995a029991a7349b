"""NVIDIA GPUs: how many one machine can have, and their GKE labels."""

from __future__ import annotations

from dataclasses import dataclass

from ml_metrics.config.accelerator import Accelerator, Kind, toleration

RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A type of GPU."""

    name: str
    gke_label: str
    counts: tuple[int, ...]
    """The possible numbers in one machine."""

    def times(self, count: int) -> Accelerator:
        """Return the accelerator with this number of GPUs in one machine."""
        if count not in self.counts:
            raise ValueError(f"a machine can have {', '.join(map(str, self.counts))} of {self.name}, not {count}")
        return Accelerator(
            name=self.name if count == 1 else f"{self.name}x{count}",
            kind=Kind.GPU,
            count=count,
            resource=RESOURCE,
            per_host=count,
            node_selector={"cloud.google.com/gke-accelerator": self.gke_label},
            tolerations=(toleration(RESOURCE),),
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

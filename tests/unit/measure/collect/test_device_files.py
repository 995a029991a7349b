"""GPUs and TPUs while a job ran, from text of the DCGM exporter and of `tpu-info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.limits import Limits
from ml_metrics.measure import collect_run
from ml_metrics.measure.readers.devices import DeviceSamples, TpuTables, add_line
from ml_metrics.store.run_folder import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.measure.collect import Collected

LABELS = 'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100",Hostname="n1"'
DCGM = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{0}}} 1980
DCGM_FI_DEV_MEMORY_TEMP{{{0}}} 9223372036854775794
DCGM_FI_DEV_GPU_TEMP{{{0}}} {temperature}
DCGM_FI_DEV_GPU_UTIL{{{0}}} {utilization}
DCGM_FI_DEV_FB_USED{{{0}}} 40960
DCGM_FI_DEV_POWER_USAGE{{{0}}} 650.250000
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{0}}} {energy}
DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{0}}} 3
DCGM_FI_DEV_XID_ERRORS{{{0}}} {xid}
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{0}}} 0.452000
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{0}}} 7
"""
TPU = """\
Libtpu version: 0.0.19.dev20250721+nightly
Accelerator type: v6e

TPU Chips
┏━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┳━━━━━━━━━┓
┃ Chip        ┃ Type         ┃ Devices ┃ PID     ┃
┡━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━┩
│ /dev/vfio/0 │ TPU v6e chip │ 1       │ 1469584 │
└─────────────┴──────────────┴─────────┴─────────┘
TPU Runtime Utilization
┏━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┓
┃ Chip ┃ HBM Usage (GiB)       ┃ Duty cycle ┃
┡━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━┩
│ 0    │ 18.45 GiB / 31.25 GiB │    100.00% │
│ 1    │ 10.40 GiB / 31.25 GiB │     50.00% │
│ 2    │ N/A                   │        N/A │
└──────┴───────────────────────┴────────────┘
TensorCore Utilization
┏━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┓
┃ Core ID ┃ TensorCore Utilization ┃
┡━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━┩
│ 0       │ 13.60%                 │
│ 1       │                 14.80% │
└─────────┴────────────────────────┘
TPU Buffer Transfer Latency
┏━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┓
┃ Buffer Size ┃ P50          ┃ P999         ┃
┡━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━┩
│ 8MB+        │ 108978.82 us │ 212419.07 us │
└─────────────┴──────────────┴──────────────┘
"""


def snapshot(gpu: int = 0, **values: Any) -> str:
    given = {"temperature": 60, "utilization": 90, "energy": 1000, "xid": 0, **values}
    return DCGM.format(LABELS.format(gpu=gpu), **given)


def collected(folder: Path, config: dict[str, Any] | None = None, **limits: int) -> Collected:
    parsed = MetricCollectionConfig.model_validate(config or {})
    return collect_run(parsed, RunFolder(str(folder)), None, limits=Limits(**limits))


def values(found: Collected) -> dict[str, float]:
    return {metric.name: metric.value for metric in found.metrics}


def test_gpus_over_a_run(tmp_path: Path) -> None:
    text = snapshot(temperature=60, energy=1_000) + snapshot(1, temperature=70, energy=50_000)
    text += snapshot(temperature=80, energy=9_000, utilization=50) + snapshot(1, temperature=70, energy=52_000, xid=79)
    (tmp_path / "dcgm.prom").write_text(text)
    found = collected(tmp_path)
    assert values(found) == pytest.approx(
        {
            "gpu/sm_clock_average": 1980, "gpu/sm_clock_max": 1980,
            "gpu/temperature_average": 70, "gpu/temperature_max": 80,
            "gpu/utilization_average": 80, "gpu/utilization_max": 90,
            "gpu/memory_used_average": 40 * 2**30, "gpu/memory_used_max": 40 * 2**30,
            "gpu/power_average": 650.25, "gpu/power_max": 650.25,
            "gpu/tensor_active_average": 45.2, "gpu/tensor_active_max": 45.2,
            "gpu/energy": 10, "gpu/pcie_replays": 0, "gpu/devices_with_xid_errors": 1,
        }
    )  # fmt: skip
    assert found.metadata["gpu_xid_errors"] == "n1 GPU-1 1: 79"
    assert (found.files, found.warnings) == (1, ())


@pytest.mark.parametrize(
    "code",
    ["9223372036854775792", "9223372036854775794", "9223372036854776000", "9.223372036854776e+18", "2147483632",
     "2147483634", "2147483647", "140737488355328.000000", "140737488355330", "NaN", "+Inf", "N/A", "1e999"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS"])
def test_codes_for_values_that_are_not_available(code: str, name: str) -> None:
    samples = DeviceSamples()
    assert add_line(f'{name}{{gpu="0"}} {code}', samples)
    assert (samples.not_available, samples.impossible) == (1, 0)
    assert list(samples.metrics("")) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPU_UTIL", "101"),
        ("GPU_UTIL", "-1"),
        ("GPU_TEMP", "1e6"),
        ("POWER_USAGE", "-5"),
        ("FB_USED", "1e8"),
        ("XID_ERRORS", "-1"),
        ("XID_ERRORS", "0.5"),
        ("XID_ERRORS", "1e14"),
    ],
)
def test_impossible_values(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "dcgm.prom").write_text(f'DCGM_FI_DEV_{name}{{gpu="0"}} {value}\n')
    found = collected(tmp_path)
    assert found.metrics == ()
    assert found.warnings[0] == "devices: samples left out, outside the range of what they measure: 1"


def test_a_counter_that_begins_anew_and_passes_through_codes(tmp_path: Path) -> None:
    """The energy since boot passes 2147483640 mJ, the code of another type; then the node restarts."""
    energies = [2147483000, 2147483640, 2147484000, 500, 1500]
    (tmp_path / "dcgm.prom").write_text("".join(snapshot(energy=energy) for energy in energies))
    assert values(collected(tmp_path))["gpu/energy"] == pytest.approx((1000 + 500 + 1000) / 1000)


def test_tpus(tmp_path: Path) -> None:
    (tmp_path / "host-0").mkdir()
    (tmp_path / "host-0" / "tpu-info.txt").write_text(TPU * 2)
    found = collected(tmp_path)
    assert values(found) == pytest.approx(
        {
            "tpu/memory_used_average": 14.425 * 2**30, "tpu/memory_used_max": 18.45 * 2**30,
            "tpu/memory_total_average": 31.25 * 2**30, "tpu/memory_total_max": 31.25 * 2**30,
            "tpu/duty_cycle_average": 75, "tpu/duty_cycle_max": 100,
            "tpu/tensorcore_utilization_average": 14.2, "tpu/tensorcore_utilization_max": 14.8,
            "tpu/buffer_transfer_latency/8mb/p50_average": 108978.82,
            "tpu/buffer_transfer_latency/8mb/p50_max": 108978.82,
            "tpu/buffer_transfer_latency/8mb/p999_average": 212419.07,
            "tpu/buffer_transfer_latency/8mb/p999_max": 212419.07,
        }
    )  # fmt: skip
    assert found.warnings == ()
    units = {metric.name: metric.unit for metric in found.metrics}
    assert (units["tpu/duty_cycle_max"], units["tpu/buffer_transfer_latency/8mb/p50_max"]) == ("%", "us")


@pytest.mark.parametrize("style", ["plain", "markdown", "without borders inside"])
def test_other_styles_of_tables(style: str) -> None:
    """Older versions, `--metric`, and terminals without these characters print other borders and headings."""
    text = {
        "plain": "TPU Duty Cycle\n\n| Core ID | Duty Cycle (%) |\n|---------|------|\n| 0       | 40.00%    |\n",
        "markdown": "TPU\n| Device | Memory usage | Duty cycle |\n|-|-|-|\n| 0 | 1.00 GiB / 2.00 GiB | 40.00% |\n",
        "without borders inside": "TPU Runtime Utilization\n┃ Chip    HBM usage                 Duty cycle ┃\n"
        "│ 8       18.45 GiB / 31.25 GiB        40.00% │\n",
    }[style]
    samples = DeviceSamples()
    tables = TpuTables(samples)
    for line in text.splitlines():
        tables.add_line(line)
    assert {name: gauge.total for name, gauge in samples.gauges.items()}["tpu/duty_cycle"] == 40


def test_a_file_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "tpu-info.txt").write_text("command not found\n")
    found = collected(tmp_path)
    assert found.metrics == ()
    assert found.warnings[0] == "tpu-info.txt: has no lines of the DCGM exporter, and no table of tpu-info"


def test_a_line_that_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "dcgm.prom").write_text(snapshot() + 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 6')
    assert values(collected(tmp_path))["gpu/temperature_average"] == 60


def test_a_source_can_be_switched_off_or_named(tmp_path: Path) -> None:
    (tmp_path / "gpus.log").write_text(snapshot())
    assert values(collected(tmp_path)) == {}
    config = {"sources": {"devices": {"files": ["gpus.log"], "prefix": "node/"}}}
    assert values(collected(tmp_path, config))["node/gpu/temperature_max"] == 60
    assert values(collected(tmp_path, {"sources": {"devices": {"enabled": False, "files": ["*"]}}})) == {}


def test_hostile_files(tmp_path: Path) -> None:
    """Very many devices, codes, titles and bytes: little is kept, and reading ends."""
    lines = [f'DCGM_FI_DEV_XID_ERRORS{{gpu="{number}"}} {number}\n' for number in range(30_000)]
    lines += [f"TPU {number}\n| P50 |\n| 1.00 us |\n" for number in range(2_000)]
    lines += ["DCGM_FI_DEV_GPU_TEMP" + "{" * 5_000 + "\n", "│" * 100_000 + "\n", "\x00\xff\n" * 100]
    (tmp_path / "dcgm.prom").write_text("".join(lines))
    found = collected(tmp_path)
    assert len(found.metrics) <= 1_001
    assert any("more metrics or devices" in warning for warning in found.warnings)
    assert len(found.metadata["gpu_xid_errors"]) < 2_000_000


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(TPU.splitlines() + snapshot().splitlines()) | st.text(max_size=60), max_size=40))
def test_any_lines(lines: list[str]) -> None:
    samples = DeviceSamples()
    tables = TpuTables(samples)
    for line in lines:
        add_line(line, samples)
        tables.add_line(line)
    for metric in samples.metrics(""):
        assert metric.value >= 0
        assert metric.value < 1e18

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.accelerators import chips
from ml_metrics.config.definition import EfficiencyConfig
from ml_metrics.config.document import read_document
from ml_metrics.measure.efficiency import mfu
from ml_metrics.measure.efficiency.mfu import flops_of_step, peak_of, peaks_by_chip, performance_of

# Llama 3 8B on sequences of 8,192 tokens
MODEL = {"parameters": 8.03e9, "layers": 32, "heads": 32, "head_size": 128, "sequence_length": 8192}


def config(**keys: Any) -> EfficiencyConfig:
    return EfficiencyConfig.model_validate(keys)


def dense(attention: str) -> EfficiencyConfig:
    return config(tokens_per_step=8192, model_flops={"dense_transformer": {**MODEL, "attention": attention}})


def test_a_dense_transformer_by_hand() -> None:
    whole, half = flops_of_step(dense("whole")), flops_of_step(dense("half"))
    assert whole is not None
    assert half is not None
    attention = 12 * 32 * 32 * 128 * 8192
    assert whole.number == 8192 * (6 * 8.03e9 + attention)
    assert half.number == 8192 * (6 * 8.03e9 + attention / 2)
    assert (whole.formula, half.formula) == ("dense_transformer, attention whole", "dense_transformer, attention half")


def test_of_a_mixture_of_experts_the_active_parameters_count() -> None:
    found = flops_of_step(
        config(
            tokens_per_step=1,
            model_flops={
                "moe_transformer": {**MODEL, "parameters": 47e9, "active_parameters": 13e9, "attention": "half"}
            },
        )
    )
    assert found is not None
    assert found.number == 6 * 13e9 + 6 * 32 * 32 * 128 * 8192
    assert found.formula == "moe_transformer, attention half"


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"flops_per_step": 1e12, "model_flops": {"dense_transformer": {**MODEL, "attention": "half"}}}, "not both"),
        ({"model_flops": {"dense_transformer": {**MODEL, "attention": "half"}}}, "needs `tokens_per_step`"),
        ({"tokens_per_step": 1, "model_flops": {"dense_transformer": MODEL}}, "attention"),
        ({"tokens_per_step": 1, "model_flops": {}}, "exactly one formula"),
        ({"flops_per_step": 0}, "greater than 0"),
        ({"flops_per_step": float("nan")}, "finite"),
        ({"flops_per_step": 2e12, "hardware_flops_per_step": 1e12}, "should not be less"),
        (
            {
                "tokens_per_step": 1,
                "model_flops": {"moe_transformer": {**MODEL, "active_parameters": 9e9, "attention": "half"}},
            },
            "not be more than",
        ),
    ],
)
def test_a_config_without_one_answer_is_refused(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        config(**keys)


def test_utilisation_and_throughput_by_hand() -> None:
    found = performance_of(
        config(flops_per_step=400e12, hardware_flops_per_step=500e12, tokens_per_step=16384, samples_per_step=4),
        "v5e",
        4,
        1.25,
    )
    assert found.values == pytest.approx(
        {
            "mfu": 400e12 / (1.25 * 4 * 197e12) * 100,
            "hfu": 500e12 / (1.25 * 4 * 197e12) * 100,
            "tokens_per_second": 16384 / 1.25,
            "tokens_per_second_per_chip": 16384 / 1.25 / 4,
            "samples_per_second": 3.2,
        }
    )
    assert found.metadata["mfu.formula"] == "given in the test file"
    assert found.metadata["mfu.peak"].startswith("1.97e+14 FLOP/s (TPU v5e, bf16, dense: ")


def test_a_utilisation_above_all_of_the_chip_is_missing_with_its_inputs() -> None:
    found = performance_of(config(flops_per_step=400e12, samples_per_step=4), "v5e", 1, 1.25)
    assert "mfu" not in found.values
    assert found.values["samples_per_second"] == 3.2
    (warning,) = found.warnings
    assert warning.startswith(
        "mfu: 162.4 % is impossible: 4e+14 FLOP a step in 1.25 s on 1 chip with a peak of 1.97e+14"
    )


@pytest.mark.parametrize(("chip", "precision"), [("t4", "bf16"), ("cpu", "bf16"), ("v4", "fp8"), ("h100", "fp4")])
def test_an_unknown_peak_is_missing(chip: str, precision: str) -> None:
    found = performance_of(config(flops_per_step=1e12, precision=precision), chip, 1, 1.0)
    assert found.values == {}
    reason = f"the table of peaks has none of {chip} in {precision}"
    others = {"t4": "fp16, fp32, int8", "v4": "bf16, int8", "h100": "bf16, fp16, fp32, fp8, int8, tf32"}.get(chip)
    assert found.missing == {"mfu": f"{reason}, only in {others}" if others else reason}


def test_the_peak_of_another_device_counts_where_the_test_names_it() -> None:
    """A card of a kind that the catalogue does not distinguish has a peak of its own."""
    found = performance_of(config(flops_per_step=378e12, peak_of="h100-pcie"), "h100", 1, 1.0)
    assert found.values["mfu"] == pytest.approx(50)
    assert found.metadata["mfu.peak"].startswith("7.56e+14 FLOP/s (H100 PCIe, bf16, dense: ")
    unknown = performance_of(config(flops_per_step=1e12, peak_of="h1000"), "h100", 1, 1.0)
    assert unknown.missing == {"mfu": "the table of peaks has none of h1000 in bf16"}


def test_the_table_has_the_peaks_of_chips_of_the_catalogue() -> None:
    peaks = {chip: peak.flops / 1e12 for chip in chips() if (peak := peak_of(chip, "bf16"))}
    assert peaks == {
        "l4": 121, "a100": 312, "a100-80gb": 312, "h100": 989, "h100-mega": 989, "h200": 989, "b200": 2250,
        "v3": 123, "v4": 275, "v5e": 197, "v5p": 459, "v6e": 918, "7x": 2307,
    }  # fmt: skip


@given(
    flops=st.floats(1, 1e30),
    seconds=st.one_of(st.none(), st.floats(), st.floats(1e-9, 1e9)),
    count=st.integers(0, 10_000),
    chip=st.sampled_from([*chips(), "", "mi300x"]),
    precision=st.sampled_from(["bf16", "fp8", "int8"]),
)
def test_no_utilisation_is_invented(flops: float, seconds: float | None, count: int, chip: str, precision: str) -> None:
    found = performance_of(config(flops_per_step=flops, precision=precision), chip, count, seconds)
    peak = peak_of(chip, precision)
    possible = seconds is not None and math.isfinite(seconds) and seconds > 0 and count > 0 and peak is not None
    if "mfu" in found.values:
        assert possible
        assert peak is not None
        assert seconds is not None
        assert 0 <= found.values["mfu"] <= 100
        assert found.values["mfu"] == flops / (seconds * count * peak.flops) * 100
    else:
        assert found.missing["mfu"]


def test_the_table_has_one_number_for_each_chip_and_precision() -> None:
    table = read_document(Path(mfu.__file__).with_name("peaks.yaml")).content
    numbers = [(chip, precision) for line in table["peaks"] for chip in line["chips"] for precision in line["flops"]]
    assert len(numbers) == len(set(numbers))
    assert {precision for _, precision in numbers} <= {"bf16", "fp16", "fp8", "int8", "tf32", "fp32"}
    assert all(1e12 < peak.flops < 1e16 for of_chip in peaks_by_chip().values() for peak in of_chip.values())


def test_eight_bits_are_never_slower_than_sixteen() -> None:
    """A number with sparsity, or of half a chip, would stand out."""
    for chip in (*chips(), "h100-pcie", "mi300x"):
        of = {each: peak.flops for each, peak in peaks_by_chip().get(chip, {}).items()}
        sixteen = of.get("bf16", of.get("fp16"))
        assert of.get("fp16", sixteen) == sixteen
        if sixteen is not None:
            assert all(sixteen <= of[each] <= 2.01 * sixteen for each in ("fp8", "int8") if each in of)
            assert of.get("fp32", 0) < of.get("tf32", sixteen / 2) <= 0.51 * sixteen or chip == "t4"


def test_without_numbers_there_is_nothing_to_miss() -> None:
    assert performance_of(config(), "h100", 8, 1.0).missing == {}


@pytest.mark.parametrize(
    ("device", "flops"),
    [
        ("a100", 312e12), ("a6000", 154.85e12), ("h100", 989e12), ("h100-pcie", 756e12), ("h100-nvl", 835e12),
        ("h200", 989e12), ("h20", 148e12), ("b200", 2.25e15), ("b300", 2.25e15), ("gb200", 2.5e15), ("gb300", 2.5e15),
        ("mi250x", 191.5e12), ("mi300x", 1300e12), ("mi325x", 1300e12), ("mi355x", 2500e12), ("l40s", 362e12),
    ],
)  # fmt: skip
def test_the_table_has_the_peaks_that_torchtitan_uses(device: str, flops: float) -> None:
    """Read from its `get_peak_flops`: dense, in bf16."""
    peak = peak_of(device, "bf16")
    assert peak is not None
    assert peak.flops == flops
    assert "torchtitan" in peak.source

"""The catalogue of accelerators."""

from __future__ import annotations

import math

import pytest

from ml_metrics.config.accelerators import Kind, accelerator, catalogue


@pytest.mark.parametrize("name", catalogue())
def test_hosts_times_chips_per_host_is_the_number_of_chips(name: str) -> None:
    made = accelerator(name)
    assert made.name == name
    if made.topology:
        assert math.prod(map(int, made.topology.split("x"))) == made.count
    if made.resource in {"google.com/tpu", "nvidia.com/gpu"}:
        assert made.hosts * made.per_host == made.count
    assert (made.kind is Kind.CPU) == (made.resource is None)


@pytest.mark.parametrize(
    ("written", "name", "hosts", "per_host"),
    [
        ("v5e-16", "v5litepod-16", 4, 4),
        ("v5litepod-8", "v5litepod-8", 1, 8),
        ("tpu-v5p-8", "v5p-8", 1, 4),
        ("v4-64", "v4-64", 8, 4),
        ("v7x-16", "tpu7x-16", 2, 4),
        ("tpu7x-2", "tpu7x-2", 1, 1),
        ("v2-8", "v2-8", 1, 8),
        ("h100x1", "h100", 1, 1),
        ({"tpu": {"version": "v5e", "topology": "4x4"}}, "v5litepod-16", 4, 4),
        ({"tpu": {"version": "v6e", "chips": 8}}, "v6e-8", 1, 8),
        ({"tpu": {"version": "v5p", "topology": "4x4x12"}}, "v5p-384-4x4x12", 48, 4),
        ("v5p-384-4x4x12", "v5p-384-4x4x12", 48, 4),
        ({"gpu": {"type": "h100", "count": 8}}, "h100x8", 1, 8),
    ],
)
def test_accepted_names_and_mappings(written: object, name: str, hosts: int, per_host: int) -> None:
    made = accelerator(written)
    assert (made.name, made.hosts, made.per_host) == (name, hosts, per_host)


def test_a_single_host_of_v3_has_a_different_label() -> None:
    label = "cloud.google.com/gke-tpu-accelerator"
    assert accelerator("v3-8").node_selector[label] == "tpu-v3-device"
    assert accelerator("v3-32").node_selector[label] == "tpu-v3-slice"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("h100x9", "a machine can have 1, 2, 4, 8 of h100"),
        ("v10", "is not an accelerator; did you mean 'v100'"),
        ("mi300", "available: cpu, t4"),
        ("v5p-384-4x4x4", "contradicts itself"),
        ("v5p-7", "'v5p-7' does not exist"),
        ({"tpu": {"version": "v5e"}}, "give either topology or chips"),
        ({"tpu": {"version": "v5e", "topology": "4x4", "chips": 16}}, "give either topology or chips"),
        ({"tpu": {"version": "v5e", "chips": True}}, "should be a whole number"),
        ({"tpu": {"version": "v5p", "topology": "4x4x6"}}, "multiples of 4"),
        ({"tpu": {"version": "v5p", "topology": "4x4"}}, "is not a topology of v5p"),
        ({"tpu": {"version": "v5p", "topology": "64x64x64"}}, "is not a topology of v5p"),
        ({"gpu": {"type": "h10"}}, "did you mean 'h100'"),
        ({"tpu": "v5e"}, "is not an accelerator"),
        ({}, "is not an accelerator"),
        (None, "is not an accelerator"),
        (8, "is not an accelerator"),
    ],
)
def test_invalid_accelerators_get_a_suggestion(written: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        accelerator(written)

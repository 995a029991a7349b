"""Scalars in every encoding that writers produce."""

import struct
from pathlib import Path

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.util.tensor_util import make_tensor_proto

from unit.measure.events.event_files import content, event, field, read, simple, steps_and_values, tensor, varint, write

MANY = 300
"""Enough similar records to be read in columns."""
SCALAR = field(2, b"")
ONE = field(2, field(2, b"\x08\x01"))

FORMS = {
    "simple_value": simple("t", 1.5),
    "content of float, shape ()": tensor("t", content(1, struct.pack("<f", 1.5))),
    "content of float, shape (1,)": tensor("t", content(1, struct.pack("<f", 1.5), ONE)),
    "content of double": tensor("t", content(2, struct.pack("<d", 1.5))),
    "content of half": tensor("t", content(19, struct.pack("<e", 1.5))),
    "content of bfloat16": tensor("t", content(14, struct.pack("<f", 1.5)[2:])),
    "float_val without a shape, as torch": tensor("t", b"\x08\x01" + field(5, struct.pack("<f", 1.5))),
    "double_val": tensor("t", b"\x08\x02" + SCALAR + field(6, struct.pack("<d", 1.5))),
    "unpacked float_val": tensor("t", b"\x08\x01\x2d" + struct.pack("<f", 1.5)),
    "unpacked double_val": tensor("t", b"\x08\x02\x31" + struct.pack("<d", 1.5)),
    "half_val": tensor("t", b"\x08\x13" + SCALAR + field(13, varint(0x3E00))),
    "half_val of bfloat16": tensor("t", b"\x08\x0e" + SCALAR + field(13, varint(0x3FC0))),
    "no plugin": tensor("t", content(1, struct.pack("<f", 1.5)), plugin=""),
    "tag after the value": b"\x15" + struct.pack("<f", 1.5) + field(1, b"t"),
    "an unknown field": simple("t", 1.5) + field(77, b"later"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, MANY])
def test_every_encoding_of_a_scalar_is_read(tmp_path: Path, form: str, count: int) -> None:
    write(tmp_path, *(event(step, FORMS[form]) for step in range(count)))
    events = read(tmp_path)
    assert steps_and_values(events, "t") == [(step, 1.5) for step in range(count)]
    assert events.warnings == []


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(np.int32, -3), (np.int64, -(2**40)), (np.uint8, 200), (np.int16, -5), (np.int8, -7), (np.bool_, True),
     (np.uint16, 40_000), (np.uint32, 2**31), (np.uint64, 2**50), (np.float16, 0.5)],
)  # fmt: skip
@pytest.mark.parametrize("as_content", [False, True])
def test_every_data_type_is_read(tmp_path: Path, dtype: type, value: float, as_content: bool) -> None:
    array = np.array(value, dtype)
    proto = make_tensor_proto(array)
    if as_content:
        proto = type(proto)(dtype=proto.dtype, tensor_shape=proto.tensor_shape, tensor_content=array.tobytes())
    one = Event(wall_time=1.0, step=4)
    one.summary.value.add(tag="t", tensor=proto).metadata.plugin_data.plugin_name = "scalars"
    write(tmp_path, one.SerializeToString())
    assert steps_and_values(read(tmp_path), "t") == [(4, float(value))]


def test_a_tensor_without_elements_is_zero(tmp_path: Path) -> None:
    write(tmp_path, event(1, tensor("t", b"\x08\x01" + SCALAR)), event(2, tensor("t", b"\x08\x01" + ONE)))
    assert steps_and_values(read(tmp_path), "t") == [(1, 0.0), (2, 0.0)]


def test_a_vector_is_not_a_scalar_but_a_warning(tmp_path: Path) -> None:
    vector = tensor("v", content(1, struct.pack("<2f", 1, 2), field(2, field(2, b"\x08\x02"))))
    write(tmp_path, event(1, vector), event(1, simple("t", 1)))
    events = read(tmp_path)
    assert [one.tag for one in events.series] == ["t"]
    assert events.warnings == [".: tag 'v' is written as a scalar but holds tensors of 2 elements; not counted"]


@pytest.mark.parametrize("plugin", ["hparams", "scalars"])
def test_metadata_on_the_first_event_only(tmp_path: Path, plugin: str) -> None:
    """Tensors of other plugins are skipped."""
    first, later = (tensor("t", content(1, struct.pack("<f", 2)), plugin=name) for name in (plugin, ""))
    write(tmp_path, event(0, first), *(event(step, later) for step in range(1, MANY)))
    found = [(step, 2.0) for step in range(MANY)] if plugin == "scalars" else []
    assert [point for one in read(tmp_path).series for point in zip(one.step, one.value, strict=True)] == found


def test_one_tag_as_simple_value_and_as_tensor_is_one_series_in_order(tmp_path: Path) -> None:
    forms = [
        simple("t", 1),
        tensor("t", content(1, struct.pack("<f", 2))),
        tensor("t", b"\x08\x02" + field(6, b"\0" * 8)),
        tensor("t", content(1, struct.pack("<f", 3)), plugin=""),
    ]
    write(tmp_path, *(event(step, forms[step % 4]) for step in range(900)))
    assert steps_and_values(read(tmp_path), "t") == [(step, [1.0, 2.0, 0.0, 3.0][step % 4]) for step in range(900)]


def test_the_same_tag_twice_in_one_event_keeps_its_order(tmp_path: Path) -> None:
    write(tmp_path, *(event(step, simple("t", step), simple("t", -step)) for step in range(MANY)))
    expected = [(step, value) for step in range(MANY) for value in (float(step), -float(step))]
    assert steps_and_values(read(tmp_path), "t") == expected


@pytest.mark.parametrize("step", [0, 1, 127, 128, 2**31, 2**49 - 1, 2**49, 2**62, 2**63 - 1, -1, -(2**63)])
@pytest.mark.parametrize("count", [1, MANY])
def test_steps_of_every_size(tmp_path: Path, step: int, count: int) -> None:
    write(tmp_path, *[event(step, simple("t", 2))] * count)
    assert steps_and_values(read(tmp_path), "t") == [(step, 2.0)] * count


@pytest.mark.parametrize("tag", ["", " ", "lr/パラメータ", "a" * 3000, "x\x00y", "emoji 🚀", "..", "a\nb"])
@pytest.mark.parametrize("count", [1, MANY])
def test_tags_of_any_unicode(tmp_path: Path, tag: str, count: int) -> None:
    write(tmp_path, *(event(step, simple(tag, 2)) for step in range(count)))
    assert steps_and_values(read(tmp_path), tag) == [(step, 2.0) for step in range(count)]


def test_a_tag_that_is_not_utf_8_is_escaped(tmp_path: Path) -> None:
    write(tmp_path, event(1, field(1, b"caf\xe9") + b"\x15" + struct.pack("<f", 1)))
    assert [one.tag for one in read(tmp_path).series] == ["caf\\xe9"]


def test_non_finite_values_are_kept(tmp_path: Path) -> None:
    values = [float("inf"), float("-inf"), 1.0]
    write(tmp_path, *(event(step, simple("t", value)) for step, value in enumerate([*values, float("nan")])))
    series = read(tmp_path).series[0]
    assert series.value[:3].tolist() == values
    assert np.isnan(series.value[3])


def test_ten_thousand_tags(tmp_path: Path) -> None:
    write(tmp_path, *(event(step, simple(f"tag/{tag}", tag)) for step in (1, 2) for tag in range(10_000)))
    events = read(tmp_path)
    assert len(events.series) == 10_000
    assert all(one.step.tolist() == [1, 2] for one in events.series)
    assert {one.tag: one.value[0] for one in events.series} == {f"tag/{tag}": float(tag) for tag in range(10_000)}


def test_a_longer_tag_beside_a_shorter_step(tmp_path: Path) -> None:
    """Records of one length, with values at the same offset but different layouts."""
    tags = [f"{'t' * size}{letter}" for letter in "abcdefghijklmnop" for size in (3, 4)]
    write(tmp_path, *(event(step, simple(tag, step)) for step in range(100, 160) for tag in tags))
    events = read(tmp_path)
    assert len(events.series) == len(tags)
    for tag in tags:
        assert steps_and_values(events, tag) == [(step, float(step)) for step in range(100, 160)]


def test_rows_of_one_length_with_many_templates(tmp_path: Path) -> None:
    payloads = [event(step, simple(f"{step:05}", step)) for step in range(1, 100)]
    alike = [event(step, simple("loss5", step)) for step in range(1, 100)]
    bare = [event(step, tensor("w", content(1, bytes(8), field(2, field(2, b"\x08\x02"))), "")) for step in range(200)]
    write(tmp_path, *(one for three in zip(payloads, alike, bare, strict=False) for one in three))
    events = read(tmp_path)
    assert len(events.series) == 100
    assert steps_and_values(events, "loss5") == [(step, float(step)) for step in range(1, 100)]
    assert events.warnings == []


@pytest.mark.parametrize("count", [1, MANY])
def test_the_last_of_two_plugin_names_counts(tmp_path: Path, count: int) -> None:
    """As for any field of a protocol buffer that is written twice."""
    metadata = field(9, field(1, field(1, b"other") + field(1, b"scalars")))
    value = tensor("t", content(1, struct.pack("<f", 2)), plugin="") + metadata
    write(tmp_path, *(event(step, value) for step in range(count)))
    assert steps_and_values(read(tmp_path), "t") == [(step, 2.0) for step in range(count)]


def test_a_shape_that_contradicts_the_content_is_no_scalar(tmp_path: Path) -> None:
    empty = field(2, field(2, b"\x08\x00"))
    write(tmp_path, event(1, tensor("t", content(1, struct.pack("<f", 2), shape=empty))))
    events = read(tmp_path)
    assert events.series == []
    assert events.warnings == [".: tag 't' is written as a scalar but holds tensors of 0 elements; not counted"]

"""Events that protobuf allows and no common writer writes: fields in any order, twice, unknown, or of other types."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from unit.measure.events.event_files import field, varint

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def key(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def parts(*choices: st.SearchStrategy[bytes], most: int = 4) -> st.SearchStrategy[bytes]:
    """Some fields in any order."""
    return st.lists(st.one_of(*choices), max_size=most).map(b"".join)


def around(usual: st.SearchStrategy[tuple[bytes, ...]], odd: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The usual fields of a message, perhaps in another order, with at most two odd ones among them."""
    mixed = st.tuples(usual, st.lists(odd, max_size=2)).flatmap(lambda both: st.permutations([*both[0], *both[1]]))
    at_end = st.tuples(usual, st.lists(odd, max_size=2)).map(lambda both: [*both[0], *both[1]])
    return st.one_of(usual, mixed, at_end).map(b"".join)


numbers = st.integers(0, 40) | st.integers(0, 2**64 - 1)
elements = st.integers(0, 100)
"""Numbers that fit every data type."""
float32s = st.binary(min_size=4, max_size=4)
float64s = st.binary(min_size=8, max_size=8)
unknown = st.one_of(
    st.tuples(st.sampled_from([11, 40, 3000]), numbers).map(lambda one: key(one[0], VARINT) + varint(one[1])),
    float32s.map(lambda four: key(50, FIXED32) + four),
    float64s.map(lambda eight: key(51, FIXED64) + eight),
    st.binary(max_size=5).map(lambda inner: field(52, inner)),
    st.just(key(53, GROUP) + key(1, VARINT) + varint(7) + key(53, END_GROUP)),
)
wrong_type = st.integers(1, 10).flatmap(
    lambda number: st.sampled_from(
        [key(number, VARINT) + b"\x05", key(number, FIXED32) + b"abcd", key(number, FIXED64) + b"abcdefgh"]
    )
)
"""A known field with a type that may not be its own, so that it counts as unknown."""

dims = st.lists(st.integers(0, 3).map(lambda size: field(2, b"\x08" + varint(size))), max_size=2).map(b"".join)
data_types = st.sampled_from([0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 17, 19, 22, 23, 99])
tensor_fields = st.one_of(
    data_types.map(lambda kind: b"\x08" + varint(kind)),
    dims.map(lambda shape: field(2, shape)),
    st.binary(max_size=9).map(lambda raw: field(4, raw)),
    float32s.map(lambda raw: field(5, raw)),
    float32s.map(lambda raw: key(5, FIXED32) + raw),
    float64s.map(lambda raw: field(6, raw)),
    st.tuples(st.sampled_from([7, 10, 11, 13, 16, 17]), elements).map(lambda one: key(one[0], VARINT) + varint(one[1])),
    st.tuples(st.sampled_from([7, 10, 11, 13, 16, 17]), elements).map(lambda one: field(one[0], varint(one[1]))),
    st.just(field(8, b"text")),
    unknown,
)
usual_tensors = st.one_of(
    st.tuples(
        st.sampled_from([(1, 4), (2, 8), (3, 4), (4, 1), (5, 2), (6, 1), (9, 8), (10, 1), (14, 2), (17, 2), (19, 2),
                         (22, 4), (23, 8)]),
        dims,
        st.binary(min_size=8, max_size=8),
    ).map(lambda one: (b"\x08" + varint(one[0][0]), field(2, one[1]), field(4, one[2][: one[0][1]]))),
    float32s.map(lambda raw: (b"\x08\x01", field(5, raw))),
    float64s.map(lambda raw: (b"\x08\x02", field(2, b""), field(6, raw))),
    st.tuples(st.sampled_from([(3, 7), (9, 10), (10, 11), (17, 7), (19, 13), (14, 13), (22, 16), (23, 17)]),
              elements).map(
        lambda one: (b"\x08" + varint(one[0][0]), field(one[0][1], varint(one[1])))),
)  # fmt: skip
tensors = around(usual_tensors, tensor_fields)
plugins = st.sampled_from([b"scalars", b"scalars", b"", b"text", b"images"])
metadata = parts(
    plugins.map(lambda name: field(1, field(1, name))),
    plugins.map(lambda name: field(1, field(1, b"other") + field(1, name))),
    st.just(field(2, b"shown as")),
    unknown,
    most=2,
)
tags = st.sampled_from([b"loss", b"t", b""]).map(lambda tag: field(1, tag))
simple_values = float32s.map(lambda raw: key(2, FIXED32) + raw)
value_fields = st.one_of(
    tags,
    simple_values,
    tensors.map(lambda inner: field(8, inner)),
    metadata.map(lambda inner: field(9, inner)),
    st.just(field(4, b"\x08\x01")),
    st.just(field(5, key(1, FIXED64) + bytes(8))),
    st.just(field(7, b"node")),
    wrong_type,
    unknown,
)
values = around(
    st.one_of(
        st.tuples(tags, simple_values),
        st.tuples(tags, tensors.map(lambda inner: field(8, inner)), metadata.map(lambda inner: field(9, inner))),
    ),
    value_fields,
)
summaries = around(st.lists(values.map(lambda inner: field(1, inner)), min_size=1, max_size=3).map(tuple), unknown)
events = around(
    st.tuples(
        st.floats(allow_nan=False).map(lambda time: b"\x09" + struct.pack("<d", time)),
        numbers.map(lambda step: b"\x10" + varint(step)),
        summaries.map(lambda inner: field(5, inner)),
    ),
    st.one_of(
        numbers.map(lambda step: b"\x10" + varint(step)),
        summaries.map(lambda inner: field(5, inner)),
        st.just(field(3, b"brain.Event:2")),
        st.sampled_from([b"\x08\x01", b"\x08\x02", b""]).map(lambda log: field(7, log)),
        st.just(field(10, field(1, b"writer"))),
        wrong_type,
        unknown,
    ),
)

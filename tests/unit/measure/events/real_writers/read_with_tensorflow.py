"""Writes `points.jsonl`: every scalar of these files, as TensorFlow itself reads it.

In the environment of write_with_tensorflow.py: python read_with_tensorflow.py
"""

from __future__ import annotations

import json
from pathlib import Path

import tensorflow as tf
from tensorflow.core.util.event_pb2 import Event

HERE = Path(__file__).parent


def main() -> None:
    series: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    for file in sorted(HERE.rglob("events.out.*")):
        run = file.parent.relative_to(HERE).as_posix()
        for record in tf.data.TFRecordDataset(str(file)):
            event = Event.FromString(record.numpy())
            for value in event.summary.value:
                if (number := number_of(value)) is not None:
                    series.setdefault((run, value.tag), []).append((event.step, event.wall_time, number))
    lines = [json.dumps({"run": run, "tag": tag, "points": points}) for (run, tag), points in series.items()]
    (HERE / "points.jsonl").write_text("\n".join(lines) + "\n")


def number_of(value: tf.compat.v1.Summary.Value) -> float | None:
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind == "tensor":
        array = tf.make_ndarray(value.tensor)
        return float(array.item()) if array.size == 1 and array.dtype.kind != "O" else None
    return None


if __name__ == "__main__":
    main()

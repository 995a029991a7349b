"""TensorBoard's own reader, without sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.io_wrapper import IsSummaryEventsFile
from tensorboard.util.tensor_util import make_ndarray

from unit.measure.events.event_files import point

if TYPE_CHECKING:
    from pathlib import Path


def of_tensorboard(root: Path) -> dict[tuple[str, str], list[tuple[int, float, float | str]]]:
    found: dict[tuple[str, str], list[tuple[int, float, float | str]]] = {}
    for folder in {path.parent for path in root.rglob("*") if path.is_file() and IsSummaryEventsFile(str(path))}:
        run = folder.relative_to(root).as_posix()
        accumulator = EventAccumulator(
            str(folder), size_guidance={"scalars": 0, "tensors": 0}, purge_orphaned_data=False
        )
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            found[run, tag] = [point(one.step, one.wall_time, one.value) for one in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["tensors"]:
            metadata = accumulator.summary_metadata.get(tag)
            tensors = [(one, make_ndarray(one.tensor_proto)) for one in accumulator.Tensors(tag)]
            numbers = [
                point(one.step, one.wall_time, float(array))
                for one, array in tensors
                if array.size == 1 and array.dtype.kind in "fiu"
            ]
            if numbers and (metadata is None or metadata.plugin_data.plugin_name == "scalars"):
                found[run, tag] = numbers
    return found

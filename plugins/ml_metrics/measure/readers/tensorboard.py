"""TensorBoard event files: scalars become series, and the last text of each text tag becomes metadata."""

from __future__ import annotations

from ml_metrics.measure.events.reader import read_events
from ml_metrics.measure.source import Found, Request


def read(request: Request) -> Found:
    events = read_events(
        request.files,
        verify=request.verify,
        supersede=request.config.restarts == "supersede",
        allowance=request.allowance,
    )
    texts = {text.tag if text.run == "." else f"{text.run}/{text.tag}": text.text for text in events.texts}
    return Found(series=events.series, warnings=events.warnings, files=events.files, metadata=texts)

"""The environment of the run in a folder, as far as a config file or the folder states it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.collect import Environment
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.run_folder import RunFolder


def environment_of(tests: Sequence[TestDefinition], folder: RunFolder) -> Environment:
    """Return the environment of a run: as its only possible test defines it, else as recorded when the run started."""
    from ml_metrics.collect import Environment
    from ml_metrics.run_state import RunState

    state = RunState(folder)
    if len(tests) == 1:
        return Environment.of(tests[0], state.params)
    return Environment.of(state.identity[1], state.params) if folder.read("run") is not None else Environment()

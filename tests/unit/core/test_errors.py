"""What goes on after an error, and with which record."""

from __future__ import annotations

import logging

import pytest

from ml_metrics.core.errors import FailureLogged, StorageError

log = logging.getLogger(__name__)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StorageError("/runs: is full"), "/runs: is full"),
        (KeyError("ti"), "KeyError: 'ti'"),
        (StopIteration(), "StopIteration: "),
        (ExceptionGroup("two", [ValueError()]), "ExceptionGroup: two (1 sub-exception)"),
    ],
)
def test_an_error_is_one_record_and_no_more(error: Exception, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    with FailureLogged(log.exception, "100 % of the logs are lost"):
        raise error
    (record,) = caplog.records
    assert record.getMessage() == f"100 % of the logs are lost: {reason}"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GeneratorExit, BaseException])
def test_the_end_of_a_process_is_no_error(end: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(end), FailureLogged(log.warning, "nothing"):
        raise end
    assert not caplog.records

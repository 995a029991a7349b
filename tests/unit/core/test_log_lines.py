"""Names that somebody else has chosen, in log lines: each record is one line."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.text import logger_of, printable
from unit.project.test_border import calls

HOSTILE = "a\n[2026-01-01] INFO - all is well\x1b[2J\u202e\ud800"


@given(st.text())
def test_what_is_printable_has_no_control_character_and_other_text_stays(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


def test_no_name_forges_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    log = logger_of("ml_metrics.test_log_lines")
    log.warning("%s: is left out: %s", HOSTILE, ValueError(HOSTILE))
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert record.getMessage().startswith("a\\n[2026-01-01] INFO - all is well\\x1b[2J\\u202e")


def test_every_module_of_airflows_side_has_such_a_logger() -> None:
    others = {module for module, _, name in calls() if name == "getLogger"}
    monitors = {"measure/goodput/monitor.py", "measure/cloud/logging.py"}
    assert others - monitors == {"core/text.py"}


def test_the_filter_is_there_once() -> None:
    assert len({id(logger_of("ml_metrics.twice")), id(logging.getLogger("ml_metrics.twice"))}) == 1
    logger_of("ml_metrics.twice")
    assert len(logging.getLogger("ml_metrics.twice").filters) == 1

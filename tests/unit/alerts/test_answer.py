"""The message with the answer of a comparison or a search."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import send_answer
from ml_metrics.pipeline.experiments.own_searches import OWN
from unit.alerts.mailbox import mails, text_of

KEY = "0d1f0c2e-0000-4000-8000-000000000000"
SEARCH = {
    "title": "t: loss from a to c",
    "answer": "the level changed with c (20 runs)",
    "failed": False,
    "notes": ["b: cannot be tested, ExitCode:125"],
    "document": {"good": "a", "bad": "c", "between": ["b"], "certainty": 0.981},
}
COMPARISON = {
    "title": "t: app:2 compared with app:1",
    "answer": "1 worse (12 runs: every metric is decided)",
    "failed": True,
    "document": {"metrics": {"loss": {"verdict": "worse", "reason": "higher by 3 % or more"}}},
}


@pytest.mark.parametrize(
    ("result", "asked", "to", "lines"),
    [
        (
            SEARCH,
            (f"{OWN}t__1", ""),
            "team@example.com",
            ["good: a", "bad: c", "certainty: 98.1%", "b: cannot be tested"],
        ),
        (COMPARISON, ("manual__1", "vera@example.com"), "vera@example.com", ["loss: worse: higher by 3 % or more"]),
        (COMPARISON, ("manual__1", "vera"), "vera@corp.example.com", ["1 worse"]),
        (COMPARISON, ("manual__1", ""), None, []),
    ],
)
def test_an_answer_is_sent_once_to_whom_it_concerns(
    result: dict[str, object], asked: tuple[str, str], to: str | None, lines: list[str]
) -> None:
    mail = replace(load_mail_settings(), trial_domain="corp.example.com", dashboard_url="https://airflow.example.com/m")
    with warehouse(create=True) as opened:
        for _ in range(2):
            found = send_answer(
                KEY, result, "t", asked=asked, readers=("team@example.com",), mail=mail, warehouse=opened
            )
    assert found == ((to,) if to else ())
    assert len(mails()) == len(found)
    for got in mails():
        text = text_of(got)
        assert got["To"] == to
        assert got["Subject"].startswith(f"[ML Metrics] {result['title']}: {result['answer']}")
        assert f"https://airflow.example.com/m/experiment?key={KEY}" in text
        for line in lines:
            assert line in text

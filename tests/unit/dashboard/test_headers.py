"""The security headers of every response."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from unit.dashboard.sample_runs import PAGES


@pytest.mark.parametrize("page", [*PAGES, "/nothing", "/assets/vega.js", "/icon.svg"])
def test_every_response_forbids_foreign_content(shown: TestClient, page: str) -> None:
    policy = shown.get(page).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_no_page_names_another_host(shown: TestClient) -> None:
    for page in PAGES:
        text = shown.get(page).text
        assert re.findall(r'(?:src|href|action)="(?:https?:)?//[^"]*"', text) == []

"""Forms of other sites are rejected; forms of the dashboard are accepted behind any proxy."""

from __future__ import annotations

import pytest

from ml_metrics.ui.dashboard import access

OWN = "airflow.example.com"


def rejection(headers: dict[str, str]) -> str | None:
    return access.rejection(access.token("vera", now=0), "vera", {"host": OWN, **headers}, now=0)


def test_a_token_is_valid_for_one_user_and_twelve_hours() -> None:
    token = access.token("vera", now=0)
    assert access.rejection(token, "vera", {}, now=access.VALID_SECONDS - 1) is None
    assert "too old" in (access.rejection(token, "vera", {}, now=access.VALID_SECONDS + 1) or "")
    assert "token" in (access.rejection(token, "bob", {}, now=0) or "")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": f"https://{OWN}"},
        {"origin": f"https://{OWN.upper()}"},
        {"origin": "https://airflow.example.com", "host": "airflow.example.com:443"},
        {"origin": "http://localhost:8080", "host": "localhost:8080"},
        {"origin": "https://public.example", "x-forwarded-host": "public.example"},
        {"origin": "https://public.example", "x-forwarded-host": "public.example, inner.example"},
        {"origin": "https://public.example", "host": "10.0.0.7:8080", "sec-fetch-site": "same-origin"},
        {"origin": "null", "sec-fetch-site": "same-origin"},
    ],
)
def test_a_form_of_the_same_origin_is_accepted(headers: dict[str, str]) -> None:
    assert rejection(headers) is None


def test_a_proxy_may_rewrite_the_host_if_the_base_url_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"origin": "https://public.example", "host": "10.0.0.7:8080"}
    assert "another site" in (rejection(headers) or "")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://public.example:443/airflow")
    assert rejection(headers) is None
    for origin in ("http://public.example", "https://public.example.org", "https://public.example:8443"):
        assert "another site" in (rejection({**headers, "origin": origin}) or ""), origin


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://other.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "https://"},
        {"origin": OWN},
        {"origin": "https://sub.airflow.example.com"},
        {"origin": "https://example.com"},
        {"origin": "https://neighbour.example.com"},
        {"origin": "https://airflow.example.com.evil.example"},
        {"origin": "https://evil.example/airflow.example.com"},
        {"origin": "https://airflow.example.com@evil.example"},
        {"origin": "https://airflow.example.com:8443"},
        {"origin": "http://localhost:9999", "host": "localhost:8080"},
        {"origin": "https://other.example", "x-forwarded-host": "public.example"},
        {"origin": "https://", "x-forwarded-host": ","},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"sec-fetch-site": "same-site", "origin": f"https://{OWN}"},
        {"sec-fetch-site": "cross-site", "origin": f"https://{OWN}", "x-forwarded-host": OWN},
    ],
)
def test_a_form_of_another_origin_is_rejected_even_with_a_valid_token(headers: dict[str, str]) -> None:
    assert "another site" in (rejection(headers) or "")

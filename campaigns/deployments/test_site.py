"""The site as a reader sees it, in a browser. `make site` takes the same look."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from browser import chromium
from missing import missing
from release import site, site_check
from release.checks import TOOLS
from release.tree import ReleaseError


def test_the_site_is_read_on_a_phone_and_a_desk_in_each_version_and_asks_no_other_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (TOOLS / "mkdocs").exists() or shutil.which("chromium") is None:
        missing("`make release-tools` installs what releases need; chromium: apt-get install chromium")
    site.build(tmp_path, "next")
    site.write_versions(tmp_path)
    assert site_check.check(tmp_path, "next") == "8 looks and 2 searches without an error"
    shutil.copytree(tmp_path / "next", tmp_path / "0.1.0")
    site.write_versions(tmp_path)
    with site_check._served(tmp_path) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/next/conditions.html")
        page.locator(".md-version").hover()
        page.get_by_role("link", name="0.1.0").click()
        page.wait_for_url(f"{address}/0.1.0/")
        page.goto(address)
        page.wait_for_url(f"{address}/0.1.0/index.html")  # the newest release comes first
    first = tmp_path / "next" / "index.html"
    first.write_text(first.read_text().replace("</body>", '<img src="http://127.0.0.1:9/a.png" width="2000"></body>'))
    monkeypatch.setattr(site_check, "PAGES", ("index.html",))
    monkeypatch.setattr(site_check, "SEARCHED", "absent")
    monkeypatch.setattr(site_check, "PATIENCE", 100)
    with pytest.raises(ReleaseError) as error:
        site_check.check(tmp_path, "next")
    assert "next/index.html, 390 px, light: asks for http://127.0.0.1:9/a.png" in str(error.value)
    assert "next/index.html, 1400 px, dark: the page is " in str(error.value)
    assert "a search for 'absent' finds nothing" in str(error.value)

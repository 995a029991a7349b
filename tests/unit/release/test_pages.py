"""The pages of the site are those of docs/, and each link leads to a page or names a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from missing import missing
from release import site
from release.checks import TOOLS
from release.pages import collect, with_links
from release.slugs import github
from release.tree import PROJECT, ReleaseError


@pytest.mark.parametrize(
    ("source", "text", "page"),
    [
        ("README.md", "[a](docs/runs.md#trials)", "[a](runs.md#trials)"),
        ("README.md", "![a](docs/images/a.png)", "![a](images/a.png)"),
        ("CHANGELOG.md", "[a](SECURITY.md)", "[a](security.md)"),
        ("docs/contributing.md", "[SECURITY.md](../SECURITY.md)", "[SECURITY.md](security.md)"),
        ("docs/contributing.md", "[b](decisions/README.md)", "[b](decisions/README.md)"),
        ("docs/decisions/0001-a.md", "[b](../runs.md)", "[b](../runs.md)"),
        ("docs/decisions/0001-a.md", "[b](../../SECURITY.md)", "[b](../security.md)"),
        ("docs/runs.md", "[b](../packages/local-kube/README.md)", "[b](local-kube.md)"),
        ("docs/runs.md", "[the files](../tests/unit/measure/events)", "the files (`tests/unit/measure/events`)"),
        ("docs/runs.md", "[a](#b) [c](https://example.com/d.md)", "[a](#b) [c](https://example.com/d.md)"),
        ("docs/runs.md", "```yaml\na: [b](../SECURITY.md)\n```\n", "```yaml\na: [b](../SECURITY.md)\n```\n"),
        ("docs/runs.md", "[`a[0]`](cli.md)", "[`a[0]`](cli.md)"),
    ],
)
def test_links_lead_to_pages(source: str, text: str, page: str) -> None:
    assert with_links(text, source) == page


def test_every_page_of_docs_is_collected(tmp_path: Path) -> None:
    collect(tmp_path / "pages")
    pages = {page.relative_to(tmp_path / "pages").as_posix() for page in (tmp_path / "pages").rglob("*.md")}
    of_docs = {page.relative_to(PROJECT / "docs").as_posix() for page in (PROJECT / "docs").rglob("*.md")}
    assert pages == of_docs | {"index.md", "security.md", "changelog.md", "local-kube.md"}


def test_anchors_are_those_of_github() -> None:
    assert github("`metric_collection_config`") == "metric_collection_config"
    assert github("What a run costs, and why") == "what-a-run-costs-and-why"
    assert github("A - B") == "a---b"


def test_versions_are_listed_newest_first(tmp_path: Path) -> None:
    for name in ("next", "0.9.0", "0.10.0", "0.1.0", "notes"):
        (tmp_path / name).mkdir()
        if name != "notes":
            (tmp_path / name / "index.html").touch()
    site.write_versions(tmp_path)
    listed = (tmp_path / "versions.json").read_text()
    assert [part.split('"')[0] for part in listed.split('"version": "')[1:]] == ["next", "0.10.0", "0.9.0", "0.1.0"]
    assert listed.count("latest") == 1
    assert 'url=0.10.0/index.html"' in (tmp_path / "index.html").read_text()


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (TOOLS / "mkdocs").exists():
        missing("`make release-tools` installs what releases need")

    def with_a_broken_link(target: Path) -> None:
        collect(target)
        page = target / "runs.md"
        page.write_text(page.read_text() + "\n[a](absent.md) [b](cli.md#absent)\n")

    monkeypatch.setattr("release.site.collect", with_a_broken_link)
    with pytest.raises(ReleaseError, match=r"(?s)absent\.md.*#absent|#absent.*absent\.md"):
        site.build(tmp_path / "site", "next")
    assert not (tmp_path / "site").exists()

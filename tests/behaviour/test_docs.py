"""The docs match the code: links have targets, commands parse, examples load, and tables are up to date."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ml_metrics.airflow.provider_info import options
from ml_metrics.config.loading import load_file
from ml_metrics.ui.cli.commands import COMMANDS, parser_of

PROJECT = Path(__file__).parents[2]
BESIDE = [PROJECT / name for name in ("CHANGELOG.md", "SECURITY.md")]
PAGES = [PROJECT / "README.md", *BESIDE, *sorted((PROJECT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    found = [(page, block) for page in PAGES for kind, block in FENCE.findall(page.read_text()) if kind == language]
    return [(f"{page.relative_to(PROJECT)}:{index}", block) for index, (page, block) in enumerate(found)]


def commands() -> list[tuple[str, list[str]]]:
    lines = [
        (where, line)
        for where, block in blocks("bash")
        for line in block.replace("\\\n", " ").splitlines()
        if line and not line.startswith("#")
    ]
    return [(where, shlex.split(line, comments=True)) for where, line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_targets(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-").lower() for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_have_targets(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*)#([^)]+)\)", FENCE.sub("", page.read_text()))
    broken = [(file, anchor) for file, anchor in links if anchor not in anchors(page.parent / file if file else page)]
    assert broken == []


def test_pages_that_code_and_messages_name_are_there() -> None:
    files = [file for folder in ("plugins", "dags", "deploy", "benchmarks") for file in (PROJECT / folder).rglob("*.*")]
    named = {
        (page, anchor)
        for file in files
        if file.suffix in {".py", ".yaml", ".html", ".sh"}
        for page, anchor in re.findall(r"docs/([\w-]+\.md)(?:#([\w-]+))?", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert [(page, anchor) for page, anchor in sorted(named) if not (PROJECT / "docs" / page).exists()] == []
    assert [
        (page, anchor) for page, anchor in sorted(named) if anchor and anchor not in anchors(PROJECT / "docs" / page)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_other_sites_have_the_form_of_an_address(page: Path) -> None:
    links = re.findall(r"\]\((\S+?://[^)]*)\)", FENCE.sub("", page.read_text()))
    assert [
        link for link in links if not re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(:\d+)?(/[\w./~%#?=&+-]*)?", link)
    ] == []


OURS = [(where, argv) for where, argv in commands() if "ml-metrics" in argv]


@pytest.mark.parametrize(("where", "argv"), OURS, ids=[f"{where} {' '.join(argv)[:40]}" for where, argv in OURS])
def test_our_commands_parse(where: str, argv: list[str]) -> None:
    name, *arguments = argv[argv.index("ml-metrics") + 1 :]
    end = next((index for index, item in enumerate(arguments) if item in {"|", ">", ";", "&&", "<"}), len(arguments))
    if name == "--help":
        return
    assert name in COMMANDS, f"{where}: {' '.join(argv)}"
    try:
        parser_of(name).parse(arguments[:end])
    except SystemExit as ended:  # `--help` is 0
        assert ended.code == 0, f"{where}: {' '.join(argv)}"


def test_make_targets_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    named = {argv[1] for _, argv in commands() if argv[0] == "make"}
    assert {target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


KEYS = re.compile(r"^(command|name|framework|metric_collection_config|regression_test_config):", re.MULTILINE)
TEST_FILES = [(where, block) for where, block in blocks("yaml") if KEYS.search(block)]
A_TEST = "name: example\nimage: python:3.11\ncommand: [python3]\n"


@pytest.mark.parametrize(("where", "block"), TEST_FILES, ids=[where for where, _ in TEST_FILES])
def test_example_files_load(where: str, block: str, tmp_path: Path) -> None:
    assert isinstance(yaml.safe_load(block), dict), where
    path = tmp_path / "example.yaml"
    path.write_text(block if "command:" in block else A_TEST + block)
    assert load_file(path).tests


def test_the_list_of_settings_matches_the_code() -> None:
    defaults = {name: f" (`{option['default']}`)" if option["default"] else "" for name, option in options().items()}
    rows = [f"- `{name}`{defaults[name]}: {option['description'].strip()}" for name, option in options().items()]
    page = PROJECT / "docs" / "settings.md"
    head, begin, rest = page.read_text().partition("<!-- settings -->\n")
    _, end, tail = rest.partition("<!-- end -->\n")
    made = head + begin + "\n" + "\n".join(rows) + "\n\n" + end + tail
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(made)
    assert page.read_text() == made


def test_the_page_of_the_command_line_is_up_to_date(tmp_path: Path) -> None:
    made = PROJECT / "docs" / "cli.md" if os.environ.get("UPDATE_GOLDEN") else tmp_path / "cli.md"
    subprocess.run([sys.executable, PROJECT / "docs" / "make_cli.py", made], check=True)
    assert made.read_text() == (PROJECT / "docs" / "cli.md").read_text(), "`make docs` updates the page"


def test_the_paths_in_contributing_exist() -> None:
    page = (PROJECT / "docs" / "contributing.md").read_text()
    paths = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`", page)) - {"_ml_metrics/"}
    assert len(paths) > 30, "the pattern finds the paths"
    package = PROJECT / "plugins" / "ml_metrics"
    assert [path for path in sorted(paths) if not (package / path).exists() and not (PROJECT / path).exists()] == []

"""The pages as files."""

from __future__ import annotations

import re
from pathlib import Path

from ml_metrics.ui.cli.report import write_report
from ml_metrics.warehouse import Warehouse
from unit.ui.dashboard.sample_runs import FAILING, HOSTILE_NAMES, SHIFTED, STEADY, TODAY, recorded, run_of

TESTS = (STEADY, SHIFTED, FAILING)


def test_every_link_of_every_page_leads_to_a_file_or_a_place_in_one(filled: Warehouse, tmp_path: Path) -> None:
    written = list(write_report(filled, str(tmp_path), TESTS, {}, TODAY))
    assert Path(written[-1][0]) == tmp_path / "index.html"
    pages = list(tmp_path.glob("*.html"))
    assert len(pages) == 5
    for page in pages:
        text = page.read_text()
        assert "csrf" not in text
        assert "<form" not in text
        assert f'Written <time datetime="{TODAY.isoformat()}">' in text
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            file, _, place = link.partition("#")
            target = (tmp_path / file) if file else page
            assert target.is_file(), link
            assert not place or f'id="{place}"' in target.read_text(), link


def test_a_report_has_only_the_selected_tests(filled: Warehouse, tmp_path: Path) -> None:
    list(write_report(filled, str(tmp_path), [STEADY], {}, TODAY))
    text = (tmp_path / "index.html").read_text()
    assert STEADY in text
    assert SHIFTED not in text
    assert [page.name for page in tmp_path.glob("test-*")] == [f"test-{STEADY}.html"]
    assert "No incident is open." in (tmp_path / "inbox.html").read_text()


def test_a_report_has_the_incidents(filled: Warehouse, tmp_path: Path) -> None:
    filled.incidents.report(SHIFTED, run_of(SHIFTED, 0).key, fingerprint="x", reasons=["metric:loss_final"])
    list(write_report(filled, str(tmp_path), [SHIFTED], {}, TODAY))
    text = (tmp_path / "inbox.html").read_text()
    assert f'<a href="test-{SHIFTED}.html" title="{SHIFTED}" ' in text
    assert "1</strong> incident" in text


def test_hostile_names_stay_in_the_folder(warehouse: Warehouse, tmp_path: Path) -> None:
    tests = [name for name in HOSTILE_NAMES if name and "\x00" not in name]
    warehouse.load_all([recorded(name, 0) for name in tests])
    list(write_report(warehouse, str(tmp_path / "report"), tests, {}, TODAY))
    assert len(list((tmp_path / "report").glob("test-*.html"))) == len(tests)
    assert [path.name for path in tmp_path.iterdir() if path.name != "warehouse.db"
            and not path.name.startswith("warehouse.db-") and path.name != "airflow"] == ["report"]  # fmt: skip

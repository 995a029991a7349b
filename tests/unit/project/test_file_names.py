"""Names of files that would mislead a tool or a reader."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[3]
PRODUCT = ("plugins", "packages/local-kube/src", "dags", "include", "benchmarks", "deploy")
LOOKS_LIKE_A_TEST = re.compile(r"^(test_.*|.*_test|tests?|spec)$")
EMPTY_WORDS = re.compile(r"util|helper|manager|common|misc")


def product_paths() -> list[Path]:
    paths = [path for root in PRODUCT for path in (PROJECT / root).rglob("*") if "__pycache__" not in path.parts]
    assert len(paths) > 300, "the folders of the product are found"
    return [path.relative_to(PROJECT) for path in paths if "egg-info" not in str(path)]


def test_no_product_file_or_folder_looks_like_a_test() -> None:
    assert [str(path) for path in product_paths() if LOOKS_LIKE_A_TEST.match(path.stem)] == []


def test_no_name_is_an_empty_word() -> None:
    assert [str(path) for path in product_paths() if EMPTY_WORDS.search(path.stem)] == []

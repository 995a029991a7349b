"""Whom a broken test file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.config.contact import Contact, contact_in

BOTH = Contact("vision-team", ("a@example.com", "b@example.com"))


@pytest.mark.parametrize(
    "content",
    [
        "name: a\ncomand: [c]\nowner: vision-team\nemails: [a@example.com, b@example.com]\n",
        "owner: vision-team # who\nemails: [a@example.com, b@example.com]\nname: [\n",
        "owner: 'vision-team'\nemails:\n  - a@example.com\n  - \"b@example.com\"\nimage: {{{\n",
        '{"owner": "vision-team", "emails": ["a@example.com", "b@example.com"], "image": }',
    ],
)
def test_the_owner_and_the_recipients_are_read_as_far_as_possible(tmp_path: Path, content: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(content)
    assert contact_in(file, tmp_path) == BOTH


def test_what_a_file_inherits_counts(tmp_path: Path) -> None:
    (tmp_path / "_defaults.yaml").write_text("owner: vision-team\nemails: [a@example.com, b@example.com]\n")
    file = tmp_path / "broken.yaml"
    file.write_text("name: a\ncomand: [c]\n")
    assert contact_in(file, tmp_path) == BOTH


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00binary\x00owner",
        b"owner: [vision]\nemails: vision\n",
        b"owner: ''\nemails: [not-an-address, 'a@b@c', 5]\nname: [",
        b"owner: " + b"x" * 1000,
        b'owner: "a\\u202eb"\nemails: ["a@b\\n"]\n',
        b"[" * 100_000,
        b"[" + b"\n" * 900_000,
        b"[\nemails: " + b"a" * 900_000,
    ],
)
def test_a_hostile_file_names_nobody(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.yaml"
    file.write_bytes(content)
    assert contact_in(file, tmp_path) == Contact()


def test_a_link_to_a_file_elsewhere_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("owner: vision-team\n[")
    root = tmp_path / "tests"
    root.mkdir()
    (root / "link.yaml").symlink_to(tmp_path / "elsewhere")
    assert contact_in(root / "link.yaml", root) == Contact()


def test_a_file_that_is_gone_or_a_folder_names_nobody(tmp_path: Path) -> None:
    assert contact_in(tmp_path / "gone.yaml", tmp_path) == Contact()
    (tmp_path / "folder.yaml").mkdir()
    assert contact_in(tmp_path / "folder.yaml", tmp_path) == Contact()

"""Test files that break, vanish and come back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from ml_metrics.airflow.callbacks import watch_all
from ml_metrics.alerts import note_import_error, watching
from ml_metrics.alerts.problems import PAUSED, UNREADABLE
from ml_metrics.alerts.watching import last_commit, last_good_commit
from ml_metrics.config.loading import load_tests
from ml_metrics.core.settings import Settings
from ml_metrics.warehouse.known_tests import KnownTest, KnownTests
from unit.alerts.watching.observed import Observed

BROKEN = "name: nightly\nimage: i\nschedule: 0 3 * * *\ncommand: [c]\ntimout: 1h\n"


def test_the_first_pass_reports_nothing_whatever_it_finds(observed: Observed) -> None:
    observed.write("nightly")
    (observed.root / "bad.yaml").write_text("name: [")
    observed.paused = {"nightly"}
    assert str(observed.passes()) == "2 tests, 2 with problems, 0 messages, the first time, so that nothing is reported"
    assert observed.messages == []
    assert str(observed.passes()) == "2 tests, 2 with problems, 0 messages"
    observed.write("bad", "bad.yaml")
    observed.passes()
    assert observed.messages == []


def test_a_file_that_breaks_and_is_mended_three_times(observed: Observed) -> None:
    keys = set()
    path = observed.write("nightly")
    observed.passes()
    for _ in range(3):
        path.write_text(BROKEN)
        observed.passes()
        assert observed.subjects == ["nightly does not run: its file cannot be read"]
        (message,) = observed.messages
        assert message.recipients == ("v@example.com",)
        assert message.owner == "vision"
        assert f"{path}:5: timout: unknown key; did you mean 'timeout'?" in " ".join(message.text.split())
        assert observed.incident("nightly") == ("file:unreadable",)
        keys.add(message.key)
        observed.passes()
        assert observed.messages == []
        observed.write("nightly")
        observed.passes()
        assert observed.subjects == ["nightly works again (was: its file cannot be read)"]
        assert observed.incident("nightly") is None
        keys.add(observed.messages[0].key)
        observed.passes()
        assert observed.messages == []
    assert len(keys) == 6


def test_the_last_good_commit_is_named(observed: Observed) -> None:
    path = observed.write("nightly")
    git(observed.root, "init", "-q")
    git(observed.root, "add", "-A")
    git(observed.root, "commit", "-q", "-m", "Train longer")
    observed.passes()
    path.write_text(BROKEN)
    git(observed.root, "commit", "-aq", "-m", "Tidy")
    observed.passes()
    assert f"{git(observed.root, 'rev-parse', 'HEAD~1')[:12]} (Train longer, A New User, " in observed.messages[0].text


def test_a_test_that_vanished_is_forgotten_once_that_is_acknowledged(observed: Observed) -> None:
    observed.write("nightly").unlink()
    observed.write("other")
    path = observed.write("nightly")
    observed.passes()
    path.unlink()
    observed.passes()
    assert observed.subjects == ["nightly vanished: no file defines it any more"]
    assert "ml-metrics ack nightly" in observed.messages[0].text
    observed.passes()
    assert observed.messages == []
    observed.warehouse.incidents.report("nightly", "a run", fingerprint="f", reasons=["job_status:"])
    assert observed.warehouse.incidents.acknowledge("definition:nightly", by="a new user")
    observed.passes()
    assert observed.messages == []
    assert set(observed.warehouse.known_tests.read().tests) == {"other"}
    assert observed.warehouse.incidents.all_open() == {}


@pytest.mark.parametrize("file", ["nightly.yaml", "another.yaml"])
def test_a_new_name_is_recognised_by_the_file_or_the_definition(observed: Observed, file: str) -> None:
    path = observed.write("nightly", command=["train"])
    observed.write("unrelated")
    observed.passes()
    path.unlink()
    observed.write("every-night", file, command=["train"])
    observed.write("new-too")
    observed.passes()
    assert observed.subjects == ["nightly has a new name"]
    text = " ".join(observed.messages[0].text.split())
    assert "It is named every-night now" in text
    assert "`compare_to: nightly`" in text
    observed.passes()
    assert observed.messages == []


@pytest.mark.parametrize(
    ("file", "also", "is_new_name"), [("a.yaml", "", True), ("b.yaml", "", False), ("a.yaml", "twin", False)]
)
def test_another_definition_in_its_file_is_its_new_name_if_no_other_test_of_that_file_is_gone(
    observed: Observed, file: str, also: str, is_new_name: bool
) -> None:
    sweep = {"sweep": {"lr": [1, 2]}, "params": {"lr": 1}} if also else {}
    path = observed.write("nightly", "a.yaml", command=["train"], **sweep)
    observed.passes()
    path.unlink()
    observed.write("every-night", file, command=["train", "longer"])
    observed.passes()
    assert ("It is named every-night now" in " ".join(observed.messages[0].text.split())) is is_new_name


def test_of_two_new_tests_with_its_definition_the_one_in_its_file_has_the_new_name(observed: Observed) -> None:
    members = {"sweep": {"lr": [1, 2]}, "params": {"lr": 1}, "command": ["train", "{{ params.lr }}"]}
    observed.write("nightly", **members)
    observed.passes()
    observed.write("weekly", "nightly.yaml", **members)
    observed.write("copied", **members)
    observed.passes()
    assert observed.subjects == ["2 tests of vision are not running as defined"]
    text = " ".join(observed.messages[0].text.split())
    assert re.findall(r"nightly-\S+: It is named (\S+) now", text) == ["weekly-lr-1", "weekly-lr-2"]


def test_a_twin_that_was_known_before_is_no_new_name(observed: Observed) -> None:
    path = observed.write("nightly", command=["train"])
    observed.write("twin", command=["train"])
    observed.passes()
    path.unlink()
    observed.passes()
    assert observed.subjects == ["nightly vanished: no file defines it any more"]


def test_a_broken_file_that_many_tests_include_is_one_message_to_each_owner(observed: Observed) -> None:
    for number in range(4):
        observed.write(f"test-{number}", owner="vision" if number < 3 else "speech")
    observed.passes()
    (observed.root / "_defaults.yaml").write_text("timout: 1h\n")
    observed.passes()
    assert observed.subjects == [
        "test-3 does not run: its file cannot be read",
        "3 tests of vision are not running as defined",
    ]
    assert "_defaults.yaml:1: timout" in observed.messages[1].text
    (observed.root / "_defaults.yaml").unlink()
    observed.passes()
    assert observed.subjects[1] == "3 tests of vision work again"


def test_the_folder_that_vanished_is_one_message_to_each_owner(observed: Observed) -> None:
    for number in range(30):
        observed.write(f"test-{number}")
    observed.passes()
    shutil.rmtree(observed.root)
    observed.passes()
    assert observed.subjects == ["30 tests of vision are not running as defined"]
    assert "the folder of test files does not exist" in observed.messages[0].text


def test_between_two_passes_files_are_read_again_and_airflow_is_not_asked(observed: Observed) -> None:
    paths = {name: observed.write(name) for name in ("mended", "paused", "broken")}
    observed.warehouse.known_tests.register(KnownTest("in-python", in_python=True, fingerprint="f"))
    observed.passes()
    good = paths["mended"].read_text()
    paths["mended"].write_text("timout: 1h")
    observed.paused.add("paused")
    observed.passes()
    paths["mended"].write_text(good)
    paths["broken"].write_text("timout: 1h")
    observed.write("new")
    found = watching.tests_now(
        observed.warehouse.known_tests.read(), load_tests(observed.root), observed.root, observed.now
    )
    problems = {name: [*test.problems] for name, test in found.items()}
    assert problems == {"broken": [UNREADABLE], "in-python": [], "mended": [], "new": [], "paused": [PAUSED]}


def test_a_test_names_the_sender_of_a_message_about_it_alone(observed: Observed) -> None:
    for name, sender in (("a", {"sender": "a@example.com"}), ("b", {"emails": ["b@example.com"]})):
        observed.write(name, **sender)
    observed.passes()
    observed.paused |= {"a", "b"}
    observed.passes()
    assert {one.test: one.sender for one in observed.messages} == {"a": "a@example.com", "b": "tests@example.com"}


def test_a_new_file_that_never_read_goes_to_whom_it_names(observed: Observed) -> None:
    observed.passes()
    path = observed.root / "new.yaml"
    path.write_text("name: new\ncomand: [c]\nowner: speech\nemails: [s@example.com]\n")
    observed.passes()
    assert observed.messages[0].recipients == ("s@example.com",)
    assert observed.messages[0].owner == "speech"
    path.unlink()
    observed.passes()
    assert observed.subjects == ["new works again (was: its file cannot be read)"]
    assert observed.warehouse.known_tests.read().tests == {}


def test_the_name_of_another_test(observed: Observed) -> None:
    observed.write("nightly")
    observed.passes()
    copy = observed.write("nightly", "copy.yaml", owner="thief", emails=["t@example.com"])
    observed.passes()
    assert observed.subjects == ["nightly does not run: its file cannot be read"]
    assert observed.messages[0].recipients == ("v@example.com",)
    assert "is also used by" in observed.messages[0].text
    copy.write_text("name: nightly\ncomand: x\n")
    observed.passes()
    assert "nightly works again (was: its file cannot be read)" in observed.subjects
    assert "nightly--cannot-be-read does not run: its file cannot be read" in observed.subjects


@pytest.mark.parametrize("hostile", ["large", "binary", "loop", "pipe", "deep", "folder"])
def test_hostile_files_hurt_nobody_else(observed: Observed, hostile: str) -> None:
    observed.write("nightly")
    observed.passes()
    path = observed.root / "hostile.yaml"
    if hostile == "large":
        path.write_text("name: hostile\n" + "# filler\n" * 1_200_000)
    elif hostile == "binary":
        path.write_bytes(bytes(range(256)) * 100)
    elif hostile == "loop":
        path.symlink_to(path)
    elif hostile == "pipe":
        os.mkfifo(path)
    elif hostile == "deep":
        path.write_text("[" * 50_000)
    else:
        path.mkdir()
        (path / "loop").symlink_to(observed.root)
    observed.passes()
    assert len(observed.messages) == (0 if hostile == "folder" else 1)
    assert "nightly" not in "".join(observed.subjects)


def test_a_file_that_is_being_written_is_read_again(observed: Observed) -> None:
    path = observed.write("nightly")
    whole = path.read_text()
    observed.passes()
    path.write_text(whole[: len(whole) // 2])
    observed.settle = lambda _: path.write_text(whole)  # type: ignore[method-assign,assignment]
    observed.passes()
    assert observed.messages == []


def test_a_test_in_quarantine_is_reported_afterwards(observed: Observed) -> None:
    path = observed.write("nightly", quarantine={"until": "2026-01-20", "reason": "the data moves"})
    observed.passes()
    path.write_text(BROKEN)
    observed.passes()
    assert observed.messages == []
    observed.passes(timedelta(days=2))
    assert observed.subjects == ["nightly does not run: its file cannot be read"]


def test_two_passes_at_once_make_the_same_message(observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    path = observed.write("nightly")
    observed.passes()
    path.write_text(BROKEN)
    before = observed.warehouse.known_tests.read()
    observed.passes()
    first = [message.key for message in observed.messages]
    replaced = observed.warehouse.known_tests.read()
    # the second pass read the tests before the first one replaced them
    with monkeypatch.context() as patched:
        patched.setattr(KnownTests, "read", lambda _: before)
        observed.passes()
    assert [message.key for message in observed.messages] == first
    assert observed.warehouse.known_tests.read() == replaced


GOOD, BAD = "name: nightly\nimage: i\ncommand: [c]\n", "name: nightly\nimage: i\ncomand: [c]\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A New User", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkout" / "metric_configs"
    root.mkdir(parents=True)
    git(root.parent, "init", "-q")
    return root


def commit(file: Path, content: str | None, subject: str) -> str:
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    git(file.parent, "add", "-A")
    git(file.parent, "commit", "-q", "-m", subject)
    return git(file.parent, "rev-parse", "HEAD")


def test_the_last_commit_in_which_the_file_could_be_read(root: Path) -> None:
    file = root / "nightly.yaml"
    good = commit(file, GOOD, "Add the nightly test")
    commit(file, BAD, "Tidy up")
    commit(file, f"{BAD}# more\n", "More")
    commit(root / "other.yaml", GOOD, "Another file")
    found = last_good_commit(file, file, root)
    assert found.startswith(f"{good[:12]} (Add the nightly test, A New User, 2")


def test_a_broken_file_that_others_include(root: Path) -> None:
    defaults, file = root / "_defaults.yaml", root / "nightly.yaml"
    good = commit(defaults, "owner: vision\n", "Defaults")
    commit(file, GOOD, "The test")
    commit(defaults, "owner: [", "Oops")
    assert last_good_commit(defaults, file, root).startswith(good[:12])


def test_a_change_that_is_not_committed(root: Path) -> None:
    file = root / "nightly.yaml"
    good = commit(file, GOOD, "Add")
    file.write_text(BAD)
    assert last_good_commit(file, file, root).startswith(good[:12])


def test_a_deleted_file_was_last_in_the_commit_before(root: Path) -> None:
    file = root / "folder" / "nightly.yaml"
    file.parent.mkdir()
    good = commit(file, GOOD, "Add")
    file.unlink()
    file.parent.rmdir()
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Remove")
    assert last_commit(file).startswith(good[:12])


def test_without_a_checkout_or_without_git_there_is_none(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text(BAD)
    assert last_good_commit(file, file, tmp_path) == ""
    commit(root / "nightly.yaml", GOOD, "Add")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert last_commit(root / "nightly.yaml") == ""


def test_no_program_that_the_checkout_configures_is_started(root: Path, tmp_path: Path) -> None:
    evidence, program = tmp_path / "evidence", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {evidence}\ncat\n")
    program.chmod(0o755)
    file = root / "nightly.yaml"
    commit(file, GOOD, "Add")
    (root / ".gitattributes").write_text("*.yaml diff=evil filter=evil\n")
    for key in ("core.fsmonitor", "core.pager", "diff.evil.textconv", "filter.evil.smudge", "gpg.program"):
        git(root, "config", key, str(program))
    git(root, "config", "log.showSignature", "true")
    git(root, "config", "alias.rev-list", f"!{program}")
    assert last_good_commit(file, file, root)
    assert not evidence.exists()


def test_texts_of_authors_are_data(root: Path) -> None:
    file = root / "-rf --output=x.yaml"
    commit(file, GOOD, "\x1b[31mred \x1f and a separator" + "x" * 500)
    found = last_good_commit(file, file, root)
    assert found.isprintable()
    assert len(found) < 150


def test_a_slow_git_is_given_up(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(root / "nightly.yaml", GOOD, "Add")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(watching, "TIME_LIMIT_SECONDS", 0.2)
    assert last_commit(root / "nightly.yaml") == ""


def test_a_broken_file_is_a_mail_and_its_end_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SETTLE_SECONDS", 0.0)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path))
    file = tmp_path / "nightly.yaml"
    good = "name: nightly\nimage: i\ncommand: [c]\nowner: vision\nemails: [v@example.com]\n"
    file.write_text(good)
    assert str(watch_all(None, "")).startswith("1 tests, 0 with problems, 0 messages, the first time")
    file.write_text(f"{good}timout: 1h\n")
    assert watch_all(None, "").messages == 1
    assert watch_all(None, "").messages == 0
    file.write_text(good)
    note_import_error(str(tmp_path / "gone.py"), "ml_metrics")
    assert watch_all(None, "").messages == 1
    mails = sorted(path.read_text() for path in Path(Settings.load().outbox).glob("*.eml"))
    assert len(mails) == 2
    assert "nightly does not run: its file cannot be read" in mails[0] + mails[1]
    assert "nightly works again" in mails[0] + mails[1]
    assert all("To: v@example.com" in mail for mail in mails)

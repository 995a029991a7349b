"""CSV files: headers, steps, times, cells that are no numbers, damaged rows, and blocks of any size."""

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.measure import Collected
from unit.measure.collect.run_folders import by_name, collected, in_any_blocks, values

LIGHTNING = """epoch,step,train_loss,val_loss
0,9,1.5,
0,19,1.25,
0,19,,1.75
"""
KERAS = "epoch,accuracy,loss\n0,0.5,1.5\n1,0.75,1.25\n"


def csv_of(tmp_path: Path, content: str | bytes, name: str = "metrics.csv", **options: Any) -> Collected:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return collected(tmp_path, sources={"csv": options})


def test_each_cell_is_a_point_and_an_empty_one_is_none(tmp_path: Path) -> None:
    found = csv_of(tmp_path, LIGHTNING, "lightning_logs/version_0/metrics.csv")
    assert values(found) == {"epoch_final": 0, "train_loss_final": 1.25, "val_loss_final": 1.75}
    assert [by_name(found)[name].points for name in ("epoch_final", "train_loss_final", "val_loss_final")] == [3, 2, 1]
    assert (by_name(found)["val_loss_final"].step, found.warnings, found.files) == (19, (), 1)


def test_an_epoch_is_the_step_where_there_is_no_other(tmp_path: Path) -> None:
    found = csv_of(tmp_path, KERAS, "training.csv")
    assert values(found) == {"accuracy_final": 0.75, "loss_final": 1.25}
    assert by_name(found)["loss_final"].step == 1


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfstep,loss\r\n1,2\r\n2,1\r\n",
        "step,loss\n1,2\n2,1\n".encode("utf-16"),
        gzip.compress(b"step,loss\n1,2\n2,1\n", mtime=0),  # the same in every worker of pytest-xdist
        b"step;loss\n1;2\n2;1\n",
        b"step\tloss\n1\t2\n2\t1\n",
        b'"step","loss"\n"1","2"\n"2","1"\n',
        b"\n step , loss \n 1 , 2 \n\n 2 , 1 \n\n",
        b"step,loss\n1,2\nstep,loss\n2,1\n",
        b"step,loss\n1.0,2e0\n2.0,+1\n",
        b"step,loss\n1,2\n2,1\n\0\0\0\n",
        b"# by train.sh 1.2\n#\tm,1\nstep,loss\n1,2\n2,1\n",
        b"# step,loss\n1,2\n2,1\n",
    ],
)
def test_spellings_of_the_same_table(tmp_path: Path, content: bytes) -> None:
    found = csv_of(tmp_path, content)
    assert (values(found), by_name(found)["loss_final"].step) == ({"loss_final": 1}, 2)
    assert (by_name(found)["loss_final"].points, found.warnings) == (2, ())


def test_a_text_that_may_tell_series_apart_is_named(tmp_path: Path) -> None:
    rows = "".join(f"{step},{split},{step}\n" for step in range(3) for split in ("train", "val"))
    found = csv_of(tmp_path, f"step,split,loss\n{rows}")
    assert found.warnings[0] == "metrics.csv: text that differs from line to line was left out: 'split'"
    assert found.warnings[1].endswith("name them by it in sources.documents, as '{split}/loss: $.loss'")
    documents = [{"files": ["metrics.csv"], "metrics": {"{split}/loss": "$.loss"}, "step": "step"}]
    apart = collected(tmp_path, sources={"documents": documents})
    assert values(apart) == {"train/loss_final": 2, "val/loss_final": 2}


@pytest.mark.parametrize(
    ("column", "ids", "is_named"),
    [
        ("rank", (0, 1), True),
        ("GPU", (0, 1), True),
        ("index", (0, 1), True),
        ("rank", (0, 0), False),
        ("rank", (0.5, 1), False),
        ("lr", (0, 1), False),
    ],
)
def test_a_number_that_may_tell_series_apart_is_named(
    tmp_path: Path, column: str, ids: tuple[float, ...], is_named: bool
) -> None:
    rows = "".join(f"{step},{one},{step}\n" for step in range(3) for one in ids)
    named = (
        f"metrics.csv: the points of all '{column}' are aggregated together; if it tells series apart, "
        f"name them by it in sources.documents, as '{{{column}}}/loss: $.loss'"
    )
    assert csv_of(tmp_path, f"step,{column},loss\n{rows}").warnings == ((named,) if is_named else ())


def test_another_header_after_a_restart_counts_from_there(tmp_path: Path) -> None:
    found = csv_of(tmp_path, "step,loss\n1,2\nstep,lr,loss\n2,0.5,1\n")
    assert (values(found), found.warnings) == ({"loss_final": 1, "lr_final": 0.5}, ())


def test_cells_that_are_no_plain_numbers(tmp_path: Path) -> None:
    found = csv_of(
        tmp_path,
        'step,a,b,c,d,e,f\n1,nan,-inf,"1,234",x,1_000,N/A\n2,inf,NaN,12 %,x,2_000,3\n3,1,1,$5,x,1,4\n',
    )
    assert values(found) == {"a_final": 1, "b_final": 1, "e_final": 1, "f_final": 4}
    assert by_name(found)["a_final"].non_finite == 2
    assert found.metadata == {"d": "x"}
    why = "not a plain number; sources.documents reads units: text of 5 characters in line 2"
    assert found.warnings == (
        f"metrics.csv: 3 lines or values were left out: column 'c': {why}",
        f"metrics.csv: 2 lines or values were left out: column 'e': {why}",
        "metrics.csv: text among numbers was left out: 'f'",
    )


def test_cells_that_repeat_the_unit_of_their_column(tmp_path: Path) -> None:
    found = csv_of(
        tmp_path,
        "timestamp, name, utilization.gpu [%], memory.used [MiB], time (all) (ms), fan.speed [%]\n"
        "2026/11/30 10:00:00.123, NVIDIA H100, 95 %, 70000 MiB, 2.5ms, [N/A]\n"
        "2026/11/30 10:00:01.125, NVIDIA H100, 97 %, 2 GiB, 1.5 ms, [N/A]\n"
        "2026/11/30 10:00:02.125, NVIDIA H100, 98 W, 3 GiB, 0.5 s, [N/A]\n",
    )
    assert values(found) == {
        "utilization.gpu [%]_final": 97,
        "memory.used [MiB]_final": 3 * 1024,
        "time (all) (ms)_final": 500,
    }
    assert by_name(found)["utilization.gpu [%]_final"].points == 2
    (warning,) = found.warnings
    assert warning.startswith("metrics.csv: 1 line or value was left out: column 'utilization.gpu [%]': not a plain")


@pytest.mark.parametrize("blank", [b"\n", b" \0\t\r\n", b"\xef\xbb\xbf\n"])
def test_very_many_empty_lines_before_the_header_take_linear_time(tmp_path: Path, blank: bytes) -> None:
    """Each of them once cost a copy of the rest of its block."""
    found = csv_of(tmp_path, blank * 500_000 + b"step,loss\n1,2\n1\n")
    assert values(found) == {"loss_final": 2}
    (warning,) = found.warnings
    assert warning.endswith("fewer cells than the header: a list of 1 in line 500,003")


def test_rows_that_do_not_fit_are_left_out_and_reported(tmp_path: Path) -> None:
    found = csv_of(tmp_path, "step,loss\n1\n2,3,4\nthree,3\n4.5,3\n,3\n5,7\n")
    assert values(found) == {"loss_final": 7}
    assert found.warnings == (
        "metrics.csv: 1 line or value was left out: fewer cells than the header: a list of 1 in line 2",
        "metrics.csv: 1 line or value was left out: more cells than the header: a list of 3 in line 3",
        (
            "metrics.csv: 3 lines or values were left out: the step 'step' is not a whole number: "
            "text of 5 characters in line 4"
        ),
    )


def test_a_last_line_without_its_end(tmp_path: Path) -> None:
    whole = csv_of(tmp_path, "step,loss\n1,2\n2,1.5")
    assert values(whole) == {"loss_final": 1.5}
    assert "its last line has no line end; it was read" in whole.warnings[0]
    torn = csv_of(tmp_path, "step,loss\n1,2\n2")
    assert (values(torn), torn.warnings) == (
        {"loss_final": 2},
        ("metrics.csv: ends with an incomplete line, which was left out",),
    )


def test_text_in_quotation_marks(tmp_path: Path) -> None:
    found = csv_of(tmp_path, 'step,note,loss\n1,"a, ""b""\n9,9,9\nc",2\n2,"open,1\n3,x,3\n')
    assert values(found) == {"loss_final": 3}
    assert found.warnings == (
        "metrics.csv: 1 line or value was left out: a quotation mark is not closed: text of 9 characters in line 5",
        "metrics.csv: text that differs from line to line was left out: 'note'",
    )


def test_columns_without_a_name_of_their_own(tmp_path: Path) -> None:
    found = csv_of(tmp_path, ",step,loss,loss,acc\n0,1,2,3,4\n")
    assert values(found) == {"acc_final": 4}
    (warning,) = found.warnings
    assert "several columns have the same name: text of 4 characters in line 1" in warning


@pytest.mark.parametrize(
    "content", ["x,y\n1,2\n", "1,2\n3,4\n", '{"step": 1, "loss": 2}\n', "name,time\na,0.5\n", "just text\n", "\n", ""]
)
def test_tables_without_step_and_time_are_not_read_and_reported(tmp_path: Path, content: str) -> None:
    found = csv_of(tmp_path, content, "data.csv")
    assert values(found) == {}
    assert not content.strip() or found.warnings[0].startswith("data.csv: not read: its first line ")


def test_the_config_names_step_and_time_or_numbers_the_lines(tmp_path: Path) -> None:
    table = "update,at,loss\n7,1000,2\n"
    found = csv_of(tmp_path, table, step="update", time="at", prefix="eval/", file_name_prefix=True)
    assert values(found) == {"eval/metrics/loss_final": 2}
    assert (found.metrics[0].step, found.metrics[0].wall_time) == (7, 1000)
    found = csv_of(tmp_path, table, step="line")
    assert (values(found), by_name(found)["loss_final"].step) == (
        {"update_final": 7, "at_final": 1000, "loss_final": 2}, 1,
    )  # fmt: skip


def test_a_file_that_two_sources_claim_is_read_once_and_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,loss\n1,2\n")
    found = collected(tmp_path, sources={"json_lines": {"files": ["*"]}})
    assert any("sources.json_lines.files and sources.csv.files both match it" in one for one in found.warnings)


def test_both_ways_of_reading_report_files_that_are_damaged(tmp_path: Path) -> None:
    damaged = gzip.compress("".join(f"{step},{step}\n" for step in range(100_000)).encode().join([b"step,loss\n", b""]))
    found = csv_of(tmp_path, damaged[: len(damaged) // 2])
    assert by_name(found)["loss_final"].points > 1000
    assert "is damaged" in found.warnings[0]


cells = (
    st.floats().map(repr)
    | st.integers(-(10**20), 10**20).map(str)
    | st.sampled_from(
        ["", " ", "1e999", " 1 ", "1,5", "nan(1)", "0x1p3", "1_0", "+1", "NA", "step", "inf", "\u0661", "a\nb"]
    )
    | st.sampled_from(["2026-01-01T00:00:00", "1790000000", "1.79e12", '"', "\0", "\r", "a;b", "\ufeff", "- ", "1e5 x"])
    | st.text(max_size=3)
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99).map(str) | cells, cells, cells), max_size=8), st.sampled_from(",;\t"))
def test_rows_in_blocks_of_any_size(rows: list[Sequence[str]], delimiter: str) -> None:
    written = io.StringIO()
    writer = csv.writer(written, delimiter=delimiter, lineterminator="\n")
    writer.writerows([["step", "time", "x"], ["1", "1790000000", "1.5"], *rows, ["2", "1790000001", "2.5"]])
    in_any_blocks("metrics.csv", written.getvalue().encode(errors="replace"), 20)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.floats() | st.none()), min_size=1, max_size=20))
def test_a_table_has_the_values_that_the_csv_module_reads(rows: list[tuple[int, float | None]]) -> None:
    written = io.StringIO()
    csv.writer(written).writerows([["step", "x"], *rows])
    expected = [float(row["x"]) for row in csv.DictReader(io.StringIO(written.getvalue())) if row["x"]]
    found = by_name(in_any_blocks("metrics.csv", written.getvalue().encode(), 20))
    assert repr([found["x_final"].value, found["x_final"].points] if found else []) == repr(
        [expected[-1], len(expected)] if expected else []
    )


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=30), st.integers(0, 200))
def test_invalid_bytes(noise: bytes, where: int) -> None:
    whole = b"step,loss\n" + b"".join(b"%d,%d\n" % (step, step) for step in range(10))
    found = in_any_blocks("metrics.csv", whole[:where] + noise + whole[where:], 20)
    assert found.files == 1

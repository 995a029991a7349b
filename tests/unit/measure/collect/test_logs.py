"""Metrics from what programs print: lines of each profile, colours, bars, restarts, several hosts, cut lines."""

import json
import math
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig, ProfileName
from ml_metrics.core.limits import Allowance
from ml_metrics.measure import LOG_PROFILES
from ml_metrics.measure.readers.log import COLOUR, read_logs
from ml_metrics.measure.readers.log_profiles import Reading
from ml_metrics.measure.text import number
from ml_metrics.ui import cli
from unit.measure.collect.formats.sample_files import InMemory
from unit.measure.collect.profile_examples import EXAMPLES
from unit.measure.collect.run_folders import by_name, collected

CLOSED = ("megatron", "torchtitan", "hugging-face")
"""The programs whose lines show by their end that they are whole."""


def plain(line: bytes) -> str:
    return COLOUR.sub(b"", line).decode(errors="replace")


def parsed(profile: str, line: str) -> Reading | None:
    return LOG_PROFILES[profile].start()(plain(line.encode()))


def logged(folder: Path, text: str | bytes, profile: str = "maxtext", **config: Any) -> dict[str, Any]:
    (folder / "train.log").write_bytes(text.encode() if isinstance(text, str) else text)
    found = collected(folder, sources={"logs": {"profile": profile}}, **config)
    return {name: (metric.value, metric.points, metric.step) for name, metric in by_name(found).items()}


def knows(profile: str, line: str) -> bool:
    return any(one in line.encode() for one in LOG_PROFILES[profile].literals) and parsed(profile, line) is not None


@pytest.mark.parametrize(("profile", "line", "step", "values"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_a_line_gives_its_values_and_no_other_profile_knows_it(
    profile: str, line: str, step: int | None, values: dict[str, float]
) -> None:
    assert parsed(profile, line) == Reading(step, values)
    assert [name for name in LOG_PROFILES if knows(name, line)] == [profile]


def test_every_profile_can_be_stated() -> None:
    assert set(LOG_PROFILES) == set(get_args(ProfileName)) == {name for name, *_ in EXAMPLES}


@given(st.sampled_from([one for one in EXAMPLES if one[0] in CLOSED]), st.data())
def test_a_line_that_was_cut_gives_no_wrong_value(example: tuple[Any, ...], data: st.DataObject) -> None:
    profile, line, step, values = example
    text = plain(line.encode())
    reading = parsed(profile, text[: data.draw(st.integers(0, len(text)))])
    assert reading is None or (reading.step == step and reading.values.items() <= values.items())


@given(st.sampled_from(EXAMPLES), st.binary(max_size=8), st.integers(0, 400))
def test_no_bytes_stop_a_profile(example: tuple[Any, ...], noise: bytes, at: int) -> None:
    data = example[1].encode()
    parsed(example[0], (data[:at] + noise + data[at:]).decode(errors="replace"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7,033", 7033), ("1,017.62", 1017.62), ("1.05E+01", 10.5), ("16.7%", 16.7), ("596.2/596.2", 596.2),
        ("inf", math.inf), ("N/A", None), ("", None), ("1,2", None), ("12,34,567", None), ("x" * 10_000, None),
        ("0,125", None), ("12345,678", None), ("2026/11/30 10:00:00.123", None), ("11/30/2026", None),
    ],
)  # fmt: skip
def test_numbers_as_programs_print_them(text: str, value: float | None) -> None:
    assert number(text) == value


def maxtext(step: int, seconds: float, loss: float) -> str:
    return f"completed step: {step}, seconds: {seconds}, TFLOP/s/device: 1.0, Tokens/s/device: 2.0, loss: {loss}\n"


def test_without_a_profile_no_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(maxtext(1, 0.5, 2.0))
    assert not by_name(collected(tmp_path))


def test_a_restarted_job_has_each_step_once_if_the_config_requires_it(tmp_path: Path) -> None:
    text = "".join(maxtext(*one) for one in [(1, 0.5, 4.0), (2, 0.5, 3.0), (3, 0.5, 9.0), (2, 0.6, 3.1), (3, 0.6, 2.0)])
    assert logged(tmp_path, text)["log/loss_final"] == (2.0, 5, 3)
    assert logged(tmp_path, text, restarts="supersede")["log/loss_final"] == (2.0, 3, 3)


def test_several_hosts_and_other_lines_in_one_log(tmp_path: Path) -> None:
    lines = [f"[rank{rank}]: {maxtext(step, 0.5, 4.0 - step)}WARNING: x\n" for step in range(3) for rank in (0, 1)]
    found = logged(tmp_path, "".join(lines) + "completed profiler activation step: 4, loss: 1\ncompleted step: 5, sec")
    assert found["log/loss_final"] == (2.0, 6, 2)
    assert found["log/step_time_final"][0] == 0.5


def test_a_loss_that_megatron_leaves_out_has_no_point(tmp_path: Path) -> None:
    line = " iteration {}/ 9 | elapsed time per iteration (ms): 500.0 |{} number of nan iterations: {} |\n"
    text = line.format(1, " lm loss: 2.0 |", 0) + line.format(2, "", 1)
    found = logged(tmp_path, text, "megatron")
    assert found["log/loss_final"][:2] == (2.0, 1)
    assert found["log/nan_iterations_final"][:2] == (1, 2)
    assert found["log/step_time_final"][:2] == (0.5, 2)


def test_each_bar_of_nemo_counts_once_and_a_validation_adds_its_value(tmp_path: Path) -> None:
    """As tqdm writes them where there is no terminal."""
    bar = "Epoch 0: : 1%|# | {}/9 [00:00<00:11, global_step={}, train_step_timing in s={}{}]"
    zero, one = bar.format(1, "0.000", 0.5, ""), bar.format(2, "1.000", 0.25, "")
    validated = bar.format(2, "1.000", 0.25, ", val_loss=2.5")
    redrawn = f"\r{zero}\r{zero}\r{one}\nValidation: 100%|##| 2/2\r{one}\r{validated}\r{validated}\n{validated}\n"
    found = logged(tmp_path, redrawn, "nemo")
    assert (found["log/step_time_final"], found["log/val_loss_final"]) == ((0.25, 2, 1), (2.5, 1, 1))


def test_bars_of_keras_are_redrawn_in_one_line(tmp_path: Path) -> None:
    bars = [f"\r{done}/3 ━━━━━ {1}s {20}ms/step - loss: {done}.0 - val_loss: 9.5" for done in (1, 2, 3)]
    text = "".join(f"Epoch {epoch}/2\r\n{''.join(bars)}\r\n" for epoch in (1, 2))
    expected = {"log/loss_final": (3.0, 2, 2), "log/val_loss_final": (9.5, 2, 2), "log/step_time_final": (0.02, 2, 2)}
    assert logged(tmp_path, text, "keras") == expected
    assert logged(tmp_path, text.replace("\r1/3", "\b\b\b\b1/3"), "keras") == expected
    assert logged(tmp_path, b"\xff\xfe" + text.encode("utf-16-le"), "keras") == expected


def test_the_last_bar_of_keras_counts_validation_and_callbacks_as_steps(tmp_path: Path) -> None:
    bars = ["1/3 ━ 9s 4s/step - loss: 9.0", "3/3 ━━━ 0s 20ms/step - loss: 3.0"]
    last = "3/3 ━━━ 5s 80ms/step - loss: 3.0 - val_loss: 9.5"
    found = logged(tmp_path, "Epoch 1/1\n" + "\r".join([*bars, last]) + "\n", "keras")
    assert found["log/step_time_final"] == (0.02, 1, 1)
    assert "log/step_time_with_validation_final" not in found
    found = logged(tmp_path, "Epoch 1/1\n" + "\r".join([bars[0], last]) + "\n", "keras")
    assert found["log/step_time_with_validation_final"] == (0.08, 1, 1), "the first bar holds the compilation"
    assert "log/step_time_final" not in found


def test_validation_of_torchtitan_is_no_training(tmp_path: Path) -> None:
    line = "step:  2  loss:  8.0  grad_norm:  1.4  memory: 10.2GiB(12.9%)  tps: 7,033  tflops: 52.1  mfu: 16.7%\n"
    found = logged(tmp_path, f"{line}validate {line}", "torchtitan")
    assert found["log/loss_final"] == (8.0, 1, 2)
    assert found["log/tokens_per_second_per_device_final"][0] == 7033


def test_a_log_of_another_program_is_reported(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("hello\n")
    found = collected(tmp_path, sources={"logs": {"profile": "nemo"}})
    assert any("has no line that the log profile nemo knows" in one for one in found.warnings)


OWN = {
    "ours": {
        "lines": [
            {
                "line": r"it (?P<step>\d+): (?P<images_per_second>[0-9.,]+) img/s, loss (?P<loss>\S+)",
                "example": "it 12: 1,024.5 img/s, loss 2.25",
                "contains": "img/s",
            }
        ]
    }
}


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("start\nit 1: 1,000 img/s, loss 3.0\nit 2: 1,100 img/s, loss nan\nit 3: broken\n")
    found = by_name(collected(tmp_path, sources={"logs": {"profiles": OWN, "prefix": ""}}))
    assert (found["images_per_second_final"].value, found["images_per_second_final"].step) == (1100, 2)
    assert found["loss_final"].non_finite == 1


def test_numbers_of_ones_own_profile_are_converted_into_the_unit_of_their_names(tmp_path: Path) -> None:
    line = r"(?P<step>\d+): (?P<latency_ms>\S+), (?P<rate>\S+)/s, (?P<accuracy>\S+)"
    profile = {"lines": [{"line": line, "example": "1: 2ms, 3/s, 4"}]}
    for said, values in {
        "1: 950us, 8.5k/s, 71%": {"latency_ms_final": 0.95, "rate_final": 8500, "accuracy_final": 71},
        "1: 1.5s, 2M/s, 0.5": {"latency_ms_final": 1500, "rate_final": 2e6, "accuracy_final": 0.5},
        "1: 1,250, 2MB/s, 1ms": {"latency_ms_final": 1250},
        "1: 5%, 2/s, 1x": {"rate_final": 2},
    }.items():
        (tmp_path / "out.txt").write_text(f"{said}\n")
        found = collected(tmp_path, sources={"logs": {"profiles": {"ours": profile}, "prefix": ""}})
        assert {one.name: one.value for one in found.metrics} == pytest.approx(values)


def test_each_bar_that_a_line_of_ones_own_profile_redraws_counts(tmp_path: Path) -> None:
    lines = [{"line": r"(?P<step>\d+)/\d+ \[.*loss=(?P<loss>[^]]+)", "example": "1/3 [00:01<00:02, 1.1it/s, loss=5.0]"}]
    bars = "".join(
        f"\r {step / 3:.0%}|#   | {step}/3 [00:0{step}<00:02, 1.1it/s, loss={9 - step}.5]" for step in (1, 2, 3)
    )
    (tmp_path / "out.txt").write_bytes(f"  0%|    | 0/3 [00:00<?, ?it/s]{bars}\r\n".encode())
    found = by_name(collected(tmp_path, sources={"logs": {"profiles": {"ours": {"lines": lines}}, "prefix": ""}}))
    assert (found["loss_final"].value, found["loss_final"].step, found["loss_final"].points) == (6.5, 3, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"example": "it x"}, "does not match"),
        ({"contains": "tokens"}, "lacks `contains`"),
        ({"line": r"it \d+"}, "no named group"),
        ({"line": r"(?P<loss>\d+)(?=x)"}, "lookarounds"),
        ({"line": r"it 12(?P<loss>x*)"}, "none of its groups"),
    ],
)
def test_an_example_that_does_not_match_is_an_error_of_the_test_file(change: dict[str, str], message: str) -> None:
    lines = [{**OWN["ours"]["lines"][0], **change}]
    with pytest.raises(ValueError, match=message):
        MetricCollectionConfig.model_validate({"sources": {"logs": {"profiles": {"ours": {"lines": lines}}}}})


def test_lines_of_mlperf_in_a_log_with_a_profile_are_read_too(tmp_path: Path) -> None:
    event = {"time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 0.5}
    text = f"{maxtext(1, 0.5, 2.0)}:::MLLOG {json.dumps({**event, 'metadata': {'epoch_num': 1}})}\n"
    found = logged(tmp_path, text)
    assert {"eval_accuracy_final", "log/loss_final"} <= found.keys()


def test_the_command_names_the_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text(maxtext(1, 0.5, 2.0))
    assert cli.main(["formats", str(path), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["files"]
    assert report["format"] == "logs: maxtext"
    assert {one["name"] for one in report["metrics"]} >= {"log/loss_final", "log/step_time_final"}
    path.write_text("nothing\n")
    assert cli.main(["formats", str(path)]) == 1
    assert "no known format" in capsys.readouterr().out


VALUES = (
    "2.5", "1.05E+01", "1,890.32", "890.3", "12,34", "nan", "inf", "-inf", "nan(1)", "N/A", "", "16.7%",
    "16.7%%", "1_000",
    "+1.5", " 2.5", "2.5 ", "\t1", "1e999", "596.2/596.2", "-", ".5", "5.", "0x10", "\u0661", "9" * 70,
    "0" * 59 + "1.5",
    "1\u00a0", "\x1c2", "10.2GiB(12.9%)", "1ms", "20us", "3s", "true", "'1.5'", "1 - loss: 7", "1, loss: 7",
    "1 | lm loss: 7",
    "1, 'loss': 7", "1 step: 4", "1]", "[1", "}", "\r1/1 1s/step - loss: 5.0", "\x1b[31m2.5\x1b[0m", "\x1b[2",
    "\ud7ff",
)  # fmt: skip
"""What may stand where a number is expected."""


@st.composite
def logs(draw: st.DrawFn) -> tuple[Any, bytes]:
    """A log of one program: its lines, some with other values, some cut, and other lines among them."""
    profile = LOG_PROFILES[draw(st.sampled_from(list(LOG_PROFILES)))]
    lines = []
    examples = [line for name, line, *_ in EXAMPLES if name == profile.name]
    for example in draw(st.lists(st.sampled_from([*examples, "another line", "Epoch 3/9"]), max_size=6)):
        parts = re.split(r"(\d[\d,.eE+%-]*)", example)
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(0, len(parts) - 1))
            parts[at] = draw(st.sampled_from(VALUES))
        line = "".join(parts)
        lines.append(line[: draw(st.sampled_from([len(line), len(line), draw(st.integers(0, len(line)))]))])
    data = "\n".join([*lines, ""]).encode()
    return profile, data if draw(st.booleans()) else data + draw(st.binary(max_size=6))


@settings(max_examples=150, deadline=None)
@given(logs(), st.booleans())
def test_a_log_says_what_its_lines_say_one_by_one(log: tuple[Any, bytes], once: bool) -> None:
    profile, data = log
    parse, count = profile.start(), 0
    expected: dict[str, list[tuple[int, float]]] = {}
    for line in data.split(b"\n")[:-1]:
        text = plain(line)
        if not any(literal in line for literal in profile.literals):
            continue
        for reading in filter(None, map(parse, text.split("\r") if profile.redrawn else [text])):
            for tag, value in reading.values.items():
                step = count if reading.step is None else reading.step
                points = expected.setdefault(tag, [])
                expected[tag] = [one for one in points if not once or one[0] != step] + [(step, value)]
            count += 1
    read = read_logs([profile], [InMemory(data, "a.log")], Allowance(), "", once=once)
    found = {one.tag: list(zip(one.step.tolist(), one.value.tolist(), strict=True)) for one in read.series}
    assert repr(found) == repr({tag: expected[tag] for tag in found})
    assert found.keys() == expected.keys()
    assert any("has no line that" in warning for warning in read.warnings) is not bool(count)


def test_an_endless_colour_is_removed_as_others_are() -> None:
    for count in (30, 1_000_000):
        assert plain(b"a\x1b[" + b"1" * count + b"mb\n") == "ab\n"


@pytest.mark.parametrize(("profile", "line", "step", "values"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_equal_lines_count_each_time(profile: str, line: str, step: int | None, values: dict[str, float]) -> None:
    count = 1 if profile == "nemo" and line.startswith("Epoch") else 3  # a bar that is drawn again counts once
    file = InMemory(f"{line}\n".encode() * 3 + b"other\n", "a.log")
    found = read_logs([LOG_PROFILES[profile]], [file], Allowance(), "")
    assert {one.tag: one.value.tolist() for one in found.series} == {
        tag: [value] * count for tag, value in values.items()
    }
    steps = range(count) if step is None else [step] * count
    assert all(one.step.tolist() == list(steps) for one in found.series)

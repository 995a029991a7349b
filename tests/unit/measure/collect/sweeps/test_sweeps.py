"""Results of programs for one setting after the other are read as curves."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.model import FAILED, SATURATED, Sweep, SweepPoint
from ml_metrics.measure import Collected, collect_run
from ml_metrics.measure.figures import figures_of
from ml_metrics.store.run_folder import RunFolder
from unit.measure.collect.formats.sample_files import SAMPLES
from unit.measure.collect.sweeps.corpus import BESIDE, read_share


def curves(folder: Path, **sources: object) -> dict[str, Sweep]:
    config = MetricCollectionConfig.model_validate({"sources": sources})
    return {one.name: one for one in collect_run(config, RunFolder(str(folder)), None).sweeps}


def of_sample(name: str) -> dict[str, Sweep]:
    return curves(SAMPLES / name)


def about(sweep: Sweep) -> tuple[str, str, str, str]:
    return sweep.x_name, sweep.x_unit, sweep.unit, sweep.better


def points(sweep: Sweep) -> list[tuple[float, float | None]]:
    return [(point.x, point.y) for point in sweep.points]


@pytest.mark.skipif(not BESIDE.is_dir(), reason=f"NOT CHECKED: real files of other authors, which {BESIDE} would hold")
def test_the_points_of_real_sweeps_are_read_with_their_x_unit_and_direction() -> None:
    shares, missing = read_share()
    good, count = (sum(each) for each in zip(*shares.values(), strict=True))
    assert count > 3_800
    assert good / count >= 0.95, missing[:5]
    assert not missing


def test_x_is_the_requested_rate_and_a_stage_that_achieves_less_is_saturated() -> None:
    sweep = of_sample("inference-perf")["successes.latency.time_to_first_token.median"]
    assert about(sweep) == ("requested_rate", "1/s", "s", "lower")
    assert sweep.points == (
        SweepPoint(1.0, 0.031, 60), SweepPoint(8.0, 0.033, 60), SweepPoint(32.0, 2.9, 60, None, SATURATED),
    )  # fmt: skip


def test_data_sets_in_one_file_are_curves_of_their_own() -> None:
    found = of_sample("sglang")
    assert points(found["random/median_ttft_ms"]) == [(1.0, 85.7), (4.0, 106.1)]
    assert points(found["sharegpt/median_ttft_ms"]) == [(4.0, 68.3)]


def test_the_load_is_in_the_name_of_the_folder_if_it_is_nowhere_else() -> None:
    sweep = of_sample("aiperf-csv")["Time to First Token p99"]
    assert about(sweep) == ("concurrency", "", "ms", "lower")
    assert points(sweep) == [(1.0, 36.84), (4.0, 63.12)]


def test_a_failed_point_keeps_its_number_and_counts_for_nothing() -> None:
    sweep = of_sample("vllm-list")["metrics.median_ttft_ms"]
    assert [(point.x, point.y, point.mark) for point in sweep.points][-1] == (4.0, 0.0, FAILED)
    assert list(sweep.measured) == [1.0, 2.0]


def test_tables_of_nccl_are_read_from_the_right_and_programs_of_one_log_are_told_apart() -> None:
    found = of_sample("nccl-tests")
    old = found["out_of_place.busbw"]
    assert about(old) == ("size", "B", "GB/s", "higher")
    assert points(old) == [(0.0, 0.0), (32.0, 0.0), (1048576.0, 10.5)]
    new = found["all_reduce_perf/in_place.time"]
    assert [(point.x, point.mark) for point in new.points] == [(33554432.0, ""), (67108864.0, FAILED)]
    assert points(found["alltoall_perf/in_place.busbw"]) == [(33554432.0, 13.24)]


def test_units_are_those_of_the_values_whatever_a_header_says() -> None:
    assert of_sample("inferencex")["Median TTFT"].unit == "s"
    assert of_sample("perftest")["BW average"].unit == "MiB/s"
    assert about(of_sample("osu")["OSU MPI-CUDA Bandwidth Test v7.0/bandwidth"]) == ("size", "B", "MB/s", "higher")
    assert about(of_sample("osu")["OSU MPI Latency Test v5.8/latency"]) == ("size", "B", "us", "lower")


def test_markdown_has_a_spread_and_the_generation_belongs_to_the_prompt_before_it() -> None:
    found = of_sample("llama-benchy")
    assert found["tg t/s (total)"].points[1] == SweepPoint(5.0, 87.47, None, 45.79)
    assert points(of_sample("llama-bench")["avg_ts over n_depth"]) == [(0.0, 4242.11), (65536.0, 65.21)]


def test_storage_and_systems() -> None:
    storage = of_sample("mlperf-storage")["metric.train_au_mean_percentage"]
    assert about(storage) == ("num_accelerators", "", "%", "higher")
    loadgen = of_sample("mlperf-loadgen")["tokens per second"]
    assert [(point.x, point.mark) for point in loadgen.points] == [(8.0, ""), (16.0, FAILED)]


def result(rate: object, tokens: float, **more: object) -> dict[str, object]:
    base = {"model_id": "m", "backend": "vllm", "num_prompts": 8, "mean_ttft_ms": 1.0, "completed": 8}
    return {**base, "request_rate": rate, "output_throughput": tokens, **more}


def write(folder: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_depths_and_block_sizes_of_fio_are_numbers(tmp_path: Path) -> None:
    for depth, latency in ((16, 63232), (1, 14400)):
        side = {"iops": 9.5, "total_ios": 9, "clat_ns": {"percentile": {"99.000000": latency}}}
        job = {
            "jobname": "j",
            "job options": {"iodepth": str(depth)},
            "read": {"iops": 0, "total_ios": 0},
            "write": side,
        }
        write(tmp_path, {f"{depth}.json": {"fio version": "3", "global options": {"bs": "4k"}, "jobs": [job]}})
    found = curves(tmp_path)
    assert about(found["write.clat_ns.percentile.99"]) == ("iodepth", "", "ns", "lower")
    assert points(found["write.clat_ns.percentile.99"]) == [(1.0, 14400.0), (16.0, 63232.0)]
    assert not any(name.startswith("read.") for name in found)


def test_of_request_rate_and_concurrency_x_is_the_one_that_differs(tmp_path: Path) -> None:
    write(tmp_path, {f"{users}.json": result("inf", 10.0 * users, max_concurrency=users) for users in (1, 4)})
    sweep = curves(tmp_path)["output_throughput"]
    assert (sweep.x_name, points(sweep)) == ("max_concurrency", [(1.0, 10.0), (4.0, 40.0)])


def test_names_of_files_tell_curves_apart_as_the_last_resort(tmp_path: Path) -> None:
    for way, tokens in (("tcp", 1.0), ("rdma", 2.0)):
        write(tmp_path, {f"serve_{way}-qps-{rate}.json": result(rate, tokens) for rate in (2, 4)})
    found = curves(tmp_path)
    assert points(found["tcp/output_throughput"]) == [(2.0, 1.0), (4.0, 1.0)]
    assert points(found["rdma/output_throughput"]) == [(2.0, 2.0), (4.0, 2.0)]


def test_an_argument_of_the_server_is_x_where_only_the_folder_says_so(tmp_path: Path) -> None:
    folder = "SERVE--max_num_seqs={}-BENCH--max_concurrency=2-num_prompts=8/run={}.json"
    write(tmp_path, {folder.format(seqs, run): result("inf", seqs + run / 10) for seqs in (4, 8) for run in (0, 1)})
    sweep = curves(tmp_path)["output_throughput"]
    assert (sweep.x_name, points(sweep)) == ("max_num_seqs", [(4.0, 4.0), (4.0, 4.1), (8.0, 8.0), (8.0, 8.1)])


OWN = {
    "load": {
        "files": ["*"],
        "x": "rate",
        "series": ["mix"],
        "succeeded": "ok",
        "y": {"p99": {"field": "ms.p99", "unit": "ms"}},
    }
}
FIRST = {"rate": "1", "mix": "chat", "ok": 1, "ms": {"p99": 5}}
SECOND = {"rate": 2, "mix": "chat", "ok": False, "ms": {"p99": 0}}


def test_paths_lead_to_points_within_a_document(tmp_path: Path) -> None:
    write(tmp_path, {"a.json": {"sweep": {"points": [FIRST, SECOND, 7]}}})
    own = {**OWN["load"], "rows": "$.sweep.points[*]", "y": {"p99": {"field": "$.ms.p99", "unit": "ms"}}}
    assert [point.y for point in curves(tmp_path, curves={"load": own})["chat/p99"].points] == [5.0, 0.0]


@pytest.mark.parametrize(
    "files",
    [
        {"a.json": FIRST, "b.json": SECOND},
        {"a.json": [SECOND, FIRST]},
        {"a.jsonl": f"{json.dumps(SECOND)}\n{json.dumps(FIRST)}\n"},
        {"a.csv": "rate,mix,ok,ms.p99\n2,chat,0,0\n1,chat,1,5"},
        {"a.csv": "\ufeffrate; mix; ok; ms.p99\n2; chat; 0; 0\n1; chat; 1; 5\n"},
        {"a.tsv": "# comment\nrate\tmix\tok\tms.p99\n1\tchat\t1\t5\n2\tchat\t0\t0\n"},
    ],
)
def test_a_few_lines_describe_files_of_ones_own(files: dict[str, object], tmp_path: Path) -> None:
    write(tmp_path, files)
    found = curves(tmp_path, curves=OWN)
    assert list(found) == ["chat/p99"]
    assert found["chat/p99"].points == (SweepPoint(1.0, 5.0), SweepPoint(2.0, 0.0, None, None, FAILED))


def test_own_rows_and_numbers_that_are_left_out_are_told(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.csv": 'rate,mix,ok,ms.p99\n1,chat,1,5\n2,chat,1,"1,310"\n"1,024",chat,1,6\n4,chat\n8,chat,1,1,310\n'},
    )
    found = collect_run(
        MetricCollectionConfig.model_validate({"sources": {"curves": OWN}}), RunFolder(str(tmp_path)), None
    )
    assert [point.y for one in found.sweeps for point in one.points] == [5.0]
    told = (
        "'ms.p99' is not a plain number",
        "'rate' is not a plain number",
        "2 lines or values were left out: another number",
    )
    assert all(any(one in warning for warning in found.warnings) for one in told)


def test_own_files_that_are_damaged_are_a_warning_and_are_read_by_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, {"a.json": '{"rate": 1, "ms": {"p99": 5', "b.jsonl": '{"rate": 2, "loss": 1.0}\n'})
    config = MetricCollectionConfig.model_validate({"sources": {"curves": OWN}})
    found = collect_run(config, RunFolder(str(tmp_path)), None)
    assert not found.sweeps
    assert any("a.json: could not be read as a curve" in warning for warning in found.warnings)
    assert not [one.name for one in found.metrics if "loss" in one.name]


def figures(folder: Path, **asked: object) -> Collected:
    points = [(1, 10.0, 100.0, 1), (2, 20.0, 200.0, 1), (4, 40.0, 300.0, 1), (8, 200.0, 290.0, 1), (16, 0.0, 0.0, 0)]
    rows = [{"rate": x, "ms": {"p99": ms}, "tokens": tokens, "ok": ok} for x, ms, tokens, ok in points]
    write(folder, {"a.json": rows})
    y = {"p99": {"field": "ms.p99", "unit": "ms", "better": "lower"}, "tokens": {"unit": "tokens/s"}}
    own = {"files": ["*"], "x": "rate", "x_unit": "1/s", "succeeded": "ok", "y": y}
    config = MetricCollectionConfig.model_validate({"sources": {"curves": {"a": own}}, "figures": asked})
    return collect_run(config, RunFolder(str(folder)), None)


def test_figures_of_curves_are_metrics(tmp_path: Path) -> None:
    found = figures(
        tmp_path,
        capacity={"capacity": {"p99": {"at_most": 120}, "tokens": {"at_least": 50}}},
        best={"peak": "tokens"},
        quickest={"peak": "p99"},
        where={"peak_at": "tokens"},
        half={"half_peak_at": "tokens"},
        knee={"knee_at": "p99"},
        at_150={"value": {"of": "p99", "where": "tokens", "reaches": 150}},
        area={"area": {"of": "p99", "reference": [[1, 10], [3, 40], [99, 1]]}},
    )
    made = {one.name: (one.value, one.unit, one.better) for one in found.metrics if one.strategy == "computed"}
    assert made == {
        "capacity": (6.0, "1/s", "higher"), "best": (300.0, "tokens/s", "higher"), "quickest": (10.0, "ms", "lower"),
        "where": (4.0, "1/s", ""), "half": (1.5, "1/s", "lower"), "knee": (4.0, "1/s", ""),
        "at_150": (15.0, "ms", "lower"), "area": (pytest.approx(100 * 0.75**0.5), "%", "lower"),
    }  # fmt: skip
    assert "capacity: p99 limits it" in found.notes


@given(st.floats(0.1, 100), st.floats(1e-6, 1), st.sets(st.integers(1, 10**6), min_size=2, max_size=9))
def test_latency_and_bandwidth_of_a_line_are_those_it_was_made_of(a: float, per_byte: float, x: set[int]) -> None:
    time = Sweep(
        "time", "size", tuple(SweepPoint(float(at), a + per_byte * at) for at in sorted(x)), "B", "us", "lower"
    )
    asked = {"a": {"latency": "time"}, "b": {"bandwidth": "time"}}
    found, _, _ = figures_of([time], MetricCollectionConfig.model_validate({"figures": asked}))
    made = {one.name: (one.value, one.unit) for one in found}
    if len(x) > 1 and per_byte * max(x) > 1e-3 * a:
        assert made["a"] == (pytest.approx(a, rel=1e-3, abs=1e-3 * per_byte * max(x)), "us")
        assert made["b"] == (pytest.approx(1 / per_byte, rel=0.05), "B/us")


def test_a_capacity_has_an_interval_where_points_repeat(tmp_path: Path) -> None:
    rows = [{"rate": x, "ms": {"p99": y + d}, "tokens": 1.0, "ok": 1} for x, y in ((1, 10), (3, 30)) for d in (-1, 1)]
    write(tmp_path, {"b.json": rows})
    y = {"p99": {"field": "ms.p99", "unit": "ms", "better": "lower"}}
    own = {"files": ["*"], "x": "rate", "x_unit": "1/s", "y": y}
    asked = {"capacity": {"capacity": {"p99": {"at_most": 20}}}}
    config = MetricCollectionConfig.model_validate({"sources": {"curves": {"a": own}}, "figures": asked})
    found = collect_run(config, RunFolder(str(tmp_path)), None)
    assert "capacity: p99 limits it; between 1.8 and 2.2 by the spread of its points" in found.notes


@pytest.mark.parametrize(
    ("limits", "value", "said"),
    [
        ({"p99": {"at_most": 5}}, None, "not reached: p99 breaks its objective at 1 rate, the least there is"),
        ({"p99": {"at_most": 500}}, 8.0, "capacity: p99 limits it"),
        ({"token": {"at_most": 5}}, None, "the run has no curve 'token'; did you mean 'tokens'?"),
    ],
)
def test_a_capacity_that_is_not_reached_is_missing_with_the_reason(
    limits: dict[str, object], value: float | None, said: str, tmp_path: Path
) -> None:
    found = figures(tmp_path, capacity={"capacity": limits})
    assert next((one.value for one in found.metrics if one.name == "capacity"), None) == value
    assert said in (*found.missing.values(), *found.notes), "a point that failed keeps no objective"


def test_a_capacity_beyond_the_sweep_is_told_apart(tmp_path: Path) -> None:
    write(tmp_path, {f"{rate}.json": result(rate, 10.0) for rate in (1, 2)})
    config = MetricCollectionConfig.model_validate(
        {"figures": {"capacity": {"capacity": {"output_throughput": {"at_least": 5}}}}}
    )
    found = collect_run(config, RunFolder(str(tmp_path)), None)
    assert "capacity: beyond the sweep: all objectives are kept up to its end, 2" in found.notes


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.floats(allow_nan=True))), min_size=1, max_size=20
)  # fmt: skip


@given(ROWS)
def test_every_row_is_one_point_whatever_its_order_and_documents_keep_it(rows: list[tuple[int, float | None]]) -> None:
    from ml_metrics.measure.sweeps import Axis, Measurement, Value, sweeps_of

    found = sweeps_of([Measurement("a.json", {"x": x}, {"y": Value(y)}) for x, y in rows], Axis(("x",)))
    finite = [(float(x), y) for x, y in rows if y is not None and math.isfinite(y)]
    kept = [(point.x, point.y) for one in found for point in one.points if point.y is not None]
    assert sorted(kept) == sorted(finite)
    assert all(one.points == tuple(sorted(one.points, key=lambda point: point.x)) for one in found)
    document = json.loads(json.dumps(Collected((), sweeps=tuple(found)).document()))
    assert Collected.from_document(document).sweeps == tuple(found)

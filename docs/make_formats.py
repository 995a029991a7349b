"""Write docs/formats.md from the registries of formats and log profiles. `make docs` calls this program.

python docs/make_formats.py [FILE]
"""

# ruff: noqa: INP001, E501  (a script, no package; lines of a page)
from __future__ import annotations

import sys
from pathlib import Path

from ml_metrics.config.collection import FORMAT_FILES
from ml_metrics.measure.histories.registry import HISTORIES
from ml_metrics.measure.readers.log import PROFILES
from ml_metrics.measure.readers.registry import FORMATS

INTRODUCTION = """\
# Formats: files of other programs

<!-- Made by `make docs`. -->

A workload that writes one of these files into the run folder needs no other change: its numbers are metrics. A file is
recognised by its content, whatever its name. A file of no known format adds nothing: `ml-metrics collect FOLDER --explain`
prints [what would read it](sources.md#any-document). A file that looks like two formats is not read, and the warning names
both.

```bash
hyperfine --export-json "$ML_METRICS_RUN_DIR/startup.json" 'python3 -c "import json"'
ml-metrics formats startup.json
```

Looked at are {files}.
The points of `*.jsonl` and `*.csv` are read by [sources of their own](sources.md): flat JSON lines as MaxText writes
them, tables as Lightning and Keras write them; only [curves](curves.md) are looked for in them besides. To read a file of
another name, or another format from JSON lines, state it:

```yaml
metric_collection_config:
  sources:
    formats: {{stated: {{vllm-serve: ["serve.jsonl"]}}}}
```

**Repeats.** A tool that measures several times writes several values: each is a point of one series, and without another
strategy their `median` is the metric, `<tag>_median`. `metric_to_aggregation_strategy` chooses others, such as `p90`, and
so does `default_aggregation_strategies`. Points in time, as of MLflow, have the strategies of every other source.

**Settings.** Where results differ in their settings, those that differ stand before the name:
`request_rate=4/output_throughput`. A setting that is added later changes the names; `named_by` states which ones count.

**Units and directions** are those of the file. `metrics` in the config overrides them, and where a file states none, the
name of the metric tells.

A file that is cut off, has a key twice or holds something else than numbers is read as far as it can be, or not at all,
with a warning; a benchmark that failed is not a finite number, and does not pass. Documents have a size limit
([`max_json_bytes`](settings.md)), lines are read in blocks, whatever the size of the file.
"""
LOGS = """\
## Logs of programs

A profile reads the lines of training from what a program prints. The output has to be in a file of the run folder, which
`tee` writes; `pipefail` keeps the exit code of the program:

```yaml
name: llm-training
image: python:3.11
command: [bash, -o, pipefail, -c, "python3 train.py 2>&1 | tee $ML_METRICS_RUN_DIR/train.log"]
metric_collection_config:
  sources:
    logs: {profile: maxtext}
```

Tags begin with `log/` (`prefix`): `log/loss`, `log/step_time` in seconds, `log/tokens_per_second_per_device`,
`log/tflops_per_device`, and others under the names that the program prints. Colours, thousands separators, bars that are
redrawn, and lines of several hosts are understood. With `restarts: supersede`, of several lines of one step the last one
counts. Points have no time. Keras prints the time of an epoch with its validation, divided by the steps: without
bars (`verbose=2`), it is `log/step_time_with_validation`.
"""
EXPORT = """\
## Formats that are written

`ml-metrics export TEST --format FORMAT` prints recorded runs for other programs; trials are left out. Services that ask
or are sent to by themselves are described in [monitoring](monitoring.md).

| format | what it holds | read by |
| --- | --- | --- |
| `openmetrics` | the newest run: a gauge for each metric, with the labels `test`, `metric` and `verdict`, `ml_metrics_job_succeeded` and the time of its end | Prometheus, by its textfile collector |
| `hud` | a record `job_succeeded` for each run, and one for each value: the metric, not the repeats that it was made from, which the warehouse does not hold | PyTorch HUD, the format `hud` above, and `ml-metrics import`, which reads the same runs again without a loss, but unjudged |
| `otava` | a row for each run, a column for each metric | Apache Otava: `type: csv`, `time_column: time` |
| `junit` | the newest run: a job that failed is an error, a broken condition a failure, a metric without a verdict skipped | CI systems |
| `mllog` | the newest run: its start and end, and each metric as a point | MLPerf's checker, and the format `mllog` above |
| `csv` | a row for each value, with unit, verdict and bounds | spreadsheets, pandas |
| `parquet` | the same, with the rule, baseline and step of each value and what is known about its run; a run without a value has a row, too | pandas, DuckDB, BigQuery |
"""
OWN = """\
### A profile of your own

```yaml
metric_collection_config:
  sources:
    logs:
      profiles:
        ours:
          lines:
            - line: 'it (?P<step>\\d+): (?P<images_per_second>[0-9.,]+) img/s, loss (?P<loss>\\S+)'
              example: "it 12: 1,024.5 img/s, loss 2.25"
              contains: img/s
```

Each named group is a tag, and the group `step` is the step; without it, points are numbered. The example must match:
`ml-metrics validate` reports one that does not. Expressions are those of RE2, without lookarounds. `contains` is a text
that all such lines have, and makes reading several times as fast.
"""


def page() -> str:
    """Return the text of docs/formats.md."""
    files = ", ".join(f"`{pattern}`" for pattern in FORMAT_FILES)
    rows = ["| format | written by | tags |", "| --- | --- | --- |"]
    rows += [f"| `{one.name}` | {one.written_by} | {one.tags} |" for one in FORMATS]
    quirks = [f"- `{one.name}`: {one.quirks}" for one in FORMATS]
    programs = ["| profile | program | a line that it reads |", "| --- | --- | --- |"]
    for one in PROFILES:
        line = next(iter(one.examples)).replace("|", "\\|").strip()
        programs.append(f"| `{one.name}` | {one.program} | `{_shown(line)}` |")
    parts = [INTRODUCTION.format(files=files), "\n".join(rows) + "\n", "\n".join(quirks) + "\n", LOGS]
    return "\n".join([*parts, "\n".join(programs) + "\n", OWN, EXPORT])


def _shown(line: str) -> str:
    text = "".join(letter for letter in line if letter.isprintable())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def histories() -> str:
    """Return docs/import.md with the table of the histories."""
    rows = ["| `--from` | what to name | series |", "| --- | --- | --- |"]
    rows += [f"| `{one.name}` | {one.source} | {one.series} |" for one in HISTORIES]
    before, begin, rest = Path(__file__).with_name("import.md").read_text(encoding="utf-8").partition(BEGIN)
    return "\n".join([f"{before}{begin}", *rows, END]) + rest.partition(END)[2]


BEGIN, END = "<!-- histories: begin -->", "<!-- histories: end -->"
LONGEST = 90

if __name__ == "__main__":
    Path(sys.argv[1] if sys.argv[1:] else Path(__file__).with_name("formats.md")).write_text(page(), encoding="utf-8")
    if not sys.argv[1:]:
        Path(__file__).with_name("import.md").write_text(histories(), encoding="utf-8")

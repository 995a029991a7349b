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
recognised by its content, whatever its name.

```bash
hyperfine --export-json "$ML_METRICS_RUN_DIR/startup.json" 'python3 -c "import json"'
ml-metrics formats startup.json
```

A file of no known format adds nothing: `ml-metrics collect FOLDER --explain` prints [what would read
it](sources.md#any-document). A file that looks like two formats is not read, and the warning names both. Looked at are files
of these names: {files}.

Points of `*.jsonl` and `*.csv` are read by [sources of their own](sources.md). To read a file of another name, or another
format from JSON lines, state it:

```yaml
metric_collection_config:
  sources:
    formats: {{stated: {{vllm-serve: ["serve.jsonl"]}}}}
```

- **Repeats.** A tool that measures several times writes points of one series. Without another strategy their `median` is the
  metric, `<tag>_median`.
- **Settings.** Where results differ in their settings, those stand before the name: `request_rate=4/output_throughput`.
  `named_by` states which ones count, so that a new setting does not change the names.
- **Units and directions** are those of the file. `metrics` in the config overrides them.
- **Damage.** A file that is cut off is read as far as it can be, with a warning. A benchmark that failed is not a finite
  number, and does not pass. Documents have a size limit ([`max_json_bytes`](settings.md)).
"""
LOGS = """\
## Logs of programs

A profile reads the lines of training from what a program prints. `tee` writes them into the run folder, and `pipefail` keeps
the exit code:

```yaml
name: llm-training
image: python:3.11
command: [bash, -o, pipefail, -c, "python3 train.py 2>&1 | tee $ML_METRICS_RUN_DIR/train.log"]
metric_collection_config:
  sources:
    logs: {profile: maxtext}
```

Tags begin with `log/` (`prefix`): `log/loss`, `log/step_time` in seconds, `log/tokens_per_second_per_device`. Colours,
thousands separators, bars that are redrawn, and lines of several hosts are understood. Points have no time. Keras prints the
time of an epoch with its validation: without bars (`verbose=2`), it is `log/step_time_with_validation`.
"""
IMPORT = """\
## Import a history

With an imported history, a new test has a baseline on its first day:

```bash
ml-metrics import mlruns --dry-run
ml-metrics import mlruns --test resnet
ml-metrics judge --all
```

The format of a history is recognised by its content. `--dry-run` shows the resulting tests and runs, and writes nothing.
"""
MAPPING = """\
`ml-metrics import ADDRESS` reads the [tables of an older system](warehouse.md#use-or-import-an-existing-history).

- **Names.** Metrics get the same names as in a test that reads the same files, so the first run of the test continues the
  history. Without `--test`, each series becomes a test of its own. `--series SERIES` imports one of them.
- **Runs.** An imported run has the status that its program recorded, and no verdict. Commits, parameters and branches are its
  metadata.
- **Repeated imports.** The same command adds the missing runs and duplicates none, also after `kill -9`. A run whose content
  has changed is replaced.
- **Files that cannot be read** are reported, and nothing is written. `--skip-unreadable` imports the others, with exit code 2.

`ml-metrics judge --all` judges each imported run by the conditions of its test file and by the runs before it. It sends no
message and opens no incident.

### Other tables

A CSV file with a column `time` needs nothing else: columns of numbers are metrics, all others describe the run. For any other
table, a mapping names the columns, here with a row for each run:

```yaml
time_column: finished
run_column: build
status_column: result       # success, failure, timeout or missed
attributes: [commit, branch]
metrics:
  step_time: {column: step_ms, unit: s, better: lower, scale: 0.001}
  tokens_per_second: {column: tps, better: higher}
```

```bash
ml-metrics import builds.csv --mapping columns.yaml --test nightly
```

If the table has a row for each value, give `metric_column` and `value_column` instead of `metrics`, and `unit_column` and
`better_column` if there are any. `test_column` is the column of the series, `owner_column` that of the owner, and `delimiter`
the separator. Times are ISO 8601, or seconds or milliseconds since 1970.
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

Each named group is a tag, and the group `step` is the step; without it, points are numbered. `ml-metrics validate` reports an
example that does not match. Expressions are those of RE2, without lookarounds. `contains` is a text that all such lines have,
and makes reading several times as fast.
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
    return "\n".join([*parts, "\n".join(programs) + "\n", OWN, EXPORT, IMPORT, histories(), MAPPING])


def _shown(line: str) -> str:
    text = "".join(letter for letter in line if letter.isprintable())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def histories() -> str:
    """Return the table of the histories."""
    rows = ["| `--from` | what to name | series |", "| --- | --- | --- |"]
    return "\n".join([*rows, *(f"| `{one.name}` | {one.source} | {one.series} |" for one in HISTORIES)]) + "\n"


LONGEST = 90

if __name__ == "__main__":
    Path(sys.argv[1] if sys.argv[1:] else Path(__file__).with_name("formats.md")).write_text(page(), encoding="utf-8")

"""Write a test file into the folder that Airflow reads: from options, from questions on a terminal, from a finished
run, or from the manifest of a Kubernetes Job or CronJob, with its METRIC_CONFIG. The metrics of the run whose direction
is known get conditions.

A folder of this package also gives image, command and owner. The new file is checked first; no file is replaced.

examples:
  ml-metrics new
  ml-metrics new hello-cpu --image python:3.11 --command "python3 -c 'print(1)'"
  ml-metrics new resnet-v5 --from runs/latest --command "python3 train.py"
  ml-metrics new --from cronjob.yaml
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.document import read_document
from ml_metrics.config.loading import load_file, load_tests
from ml_metrics.config.pod import METRIC_CONFIG
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.kinds import HIGHER, LOWER, is_generated
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted
from ml_metrics.measure import Environment, collect_run, explain_file
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_json, add_value, login_name
from ml_metrics.ui.cli.collect import run_folder
from ml_metrics.ui.cli.output import give, wrapped

QUESTIONS = {
    "name": "name of the test",
    "image": "image",
    "command": "command",
    "owner": "owner",
    "schedule": "schedule, such as 0 3 * * * (empty: by hand)",
}


def add_arguments(parser: Parser) -> None:
    add_value(parser, "name", "NAME", "such as resnet-v5", nargs="?")
    add_value(parser, "--from", "RUN_DIR", "the folder of a finished run, or a manifest", dest="run_dir")
    add_value(parser, "--image", "IMAGE", "its container image")
    add_value(parser, "--command", "COMMAND", "its program and arguments")
    add_value(parser, "--owner", "NAME", "who is alerted; default: your login name")
    add_value(parser, "--schedule", "CRON", "in cron's form; default: by hand")
    add_json(parser)


def run(arguments: Arguments) -> int:
    manifest = Path(arguments.run_dir) if arguments.run_dir and Path(arguments.run_dir).is_file() else None
    folder = run_folder(arguments.run_dir) if arguments.run_dir and not manifest else None
    root = Path(Settings.load().config_root)
    if not root.is_dir():
        raise UsageError(f"{root}: the folder of test files does not exist: create it, or set [ml_metrics] config_root")
    usual = {"image": "python:3.11", "owner": login_name(), **(_of_run(folder) if folder else {})}
    usual |= _of_manifest(manifest) if manifest else {}
    given = {name: value for name in QUESTIONS if (value := getattr(arguments, name))}
    is_asked = sys.stdin.isatty() and not arguments.json and not given.keys() >= {"name", "command"}
    answers = _asked(given, usual) if is_asked else {**usual, **given}
    if lacking := [name for name in ("name", "command") if not answers.get(name)]:
        raise UsageError(f"give {' and '.join({'name': 'NAME', 'command': '--command'}[one] for one in lacking)}")
    sources, unread = _sources(folder) if folder else ({}, "")
    conditions, curves = _conditions(folder, sources) if folder else ([], [])
    test, path = _write(root, _text(answers, sources, conditions, curves))
    config = test.regression_test_config
    judged = counted(len(config.metric_success_conditions) + len(config.curves), "condition")
    document = {"test": test.name, "file": str(path), "conditions": conditions}
    explain = f"`ml-metrics collect --explain {shlex.quote(str(arguments.run_dir))}`"
    lines = [
        f"wrote {path}, with {judged}",
        *wrapped(unread and f"not read: {unread}; {explain} shows how"),
        f"check it:  ml-metrics validate {shlex.quote(str(path))}",
        f"run it:    ml-metrics run {test.name}",
    ]
    give(arguments, document, lines)
    return 0


def _asked(answers: dict[str, str], usual: dict[str, Any]) -> dict[str, Any]:
    for name, question in QUESTIONS.items():
        if name not in answers:
            default = usual.get(name, "")
            try:
                answers[name] = input(f"{question}{f' [{default}]' if default else ''}: ").strip() or default
            except EOFError:
                raise UsageError("there is no answer: nothing was written") from None
    return answers


def _of_run(folder: RunFolder) -> dict[str, Any]:
    """What a run of this package has recorded of its test; nothing for another folder."""
    try:
        recorded = (folder.read("run") or {}).get("test_file") or {}
    except MlMetricsError:
        return {}
    command = [*(recorded.get("command") or []), *(recorded.get("args") or [])]
    found = {name: recorded.get(name) for name in ("image", "owner", "params")}
    return {name: value for name, value in {**found, "command": shlex.join(map(str, command))}.items() if value}


def _of_manifest(path: Path) -> dict[str, Any]:
    """A Job or CronJob, as keys of a test file. What cannot be one of them is an error: nothing is left out unsaid."""
    found = read_document(path).content
    try:
        spec = found["spec"]
        job = spec["jobTemplate"]["spec"] if found["kind"] == "CronJob" else spec
        pod = dict(job["template"]["spec"])
        (container,) = (dict(one) for one in pod.pop("containers"))
        first = pod.pop("initContainers", [])
        configs = [each["value"] for one in first for each in one.get("env", ()) if each["name"] == METRIC_CONFIG]
        env = {one["name"]: one for one in container.pop("env", ())}
        references = container.pop("envFrom", [])
        resources = container.pop("resources", {})
        more = {
            **{key: value for config in configs for key, value in json.loads(config).items()},
            "args": container.pop("args", None),
            "env": {name: one["value"] for name, one in env.items() if "value" in one},
            "config_maps": [one.pop("configMapRef")["name"] for one in references if "configMapRef" in one],
            "resources": {**resources.get("requests", {}), "limits": resources.get("limits")} if resources else None,
            "init_containers": [one for one in first if METRIC_CONFIG not in str(one)],
            "timeout": f"{job['activeDeadlineSeconds']}s" if "activeDeadlineSeconds" in job else None,
            "retries": job.get("backoffLimit"),
            **{key: job["template"].get("metadata", {}).get(key) for key in ("labels", "annotations")},
            "pod": {"spec": rest} if (rest := {key: pod[key] for key in pod if key != "restartPolicy"}) else None,
        }
        answers = {
            "name": found["metadata"]["name"],
            "image": container.pop("image"),
            "command": shlex.join(container.pop("command", ())),
            "schedule": spec.get("schedule"),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path} is not a Job or CronJob with one container: {type(error).__name__}: {error}"
        ) from error
    # of the older system's templates: a workload has these variables anyway, or does not need them
    set_by_us = {"JOB_NAME", "POD_NAME", "POD_NAMESPACE", "POD_UID"}
    unknown = [name for name, one in env.items() if "value" not in one and name not in set_by_us]
    if left := [
        *unknown,
        *(key for one in references for key in one),
        *(container.keys() - {"name", "imagePullPolicy"}),
    ]:
        raise UsageError(
            f"{path}: {', '.join(sorted(left))} of the container: remove it, and write it into the new file "
            "as `env`, `secrets` or `volumes` (docs/configuration.md)"
        )
    return {name: value for name, value in answers.items() if value} | {"more": more}


def _sources(folder: RunFolder) -> tuple[dict[str, Any], str]:
    """Sources that read what is of no known format, and the files that are left: their metrics would be mixed."""
    limits, usual = Settings.load().limits, MetricCollectionConfig()
    explained = [explain_file(file, folder, usual, limits) for file in folder.files()]
    names = {each.name for one in explained if not one.proposed for each in one.metrics}
    sources: dict[str, Any] = {}
    unread: list[str] = []
    for one in explained:
        own = {each.name for each in one.metrics}
        for key, value in one.proposed.items():
            if names.isdisjoint(own) and (key == "documents" or key not in sources):
                sources[key] = [*sources.get(key, ()), *value] if key == "documents" else value
                names |= own
            else:
                unread.append(one.file)
    return sources, ", ".join(unread)


def _conditions(folder: RunFolder, sources: dict[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The metrics and the curves of a run whose better direction is known, and the comparison of each."""
    settings = Settings.load()
    collected = collect_run(
        MetricCollectionConfig.model_validate({"sources": sources}),
        folder,
        folder.read_workload(),
        environment=Environment(),
        limits=settings.limits,
    )
    words = {HIGHER: "greater", LOWER: "less"}
    found = [
        (one.name, words[one.better])
        for one in collected.metrics
        if one.better in words and one.name != "total_wall_time" and not is_generated(one.name)
    ]
    curves = [(one.name, words[one.better]) for one in collected.sweeps if one.better in words]
    return found[:8], curves[:3]  # more are for their author to choose


def _text(
    answers: dict[str, Any],
    sources: dict[str, Any],
    conditions: list[tuple[str, str]],
    curves: list[tuple[str, str]],
) -> str:
    """JSON in one line is YAML."""
    try:
        command = shlex.split(answers["command"])
    except ValueError as error:
        raise UsageError(f"the command {answers['command']!r} cannot be split as a shell does: {error}") from error
    fields: dict[str, Any] = {
        "name": answers["name"],
        "image": answers["image"],
        "command": command,
        "params": answers.get("params"),
        "owner": answers["owner"],
        "schedule": answers.get("schedule"),
        "metric_collection_config": {"sources": sources} if sources else None,
        **answers.get("more", {}),
    }
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items() if value]
    if "regression_test_config" in fields:
        return "\n".join([*lines, ""])
    lines += ["", "# each fails when it becomes worse than its history; docs/conditions.md has other thresholds"]
    lines += ["regression_test_config:", "  metric_success_conditions:"]
    judged = [*conditions, ("total_wall_time", "less"), *([("curves", "")] if curves else []), *curves]
    for name, comparison in judged:
        own = f"  {json.dumps(name, ensure_ascii=False)}: {{comparison: {comparison}}}"
        lines.append(f"  {own}" if comparison else f"  {name}:")
    return "\n".join([*lines, ""])


def _write(root: Path, text: str) -> tuple[TestDefinition, Path]:
    """Write a file that has been checked under another name, which Airflow does not read."""
    with NamedTemporaryFile("w", dir=root, prefix=".new-", suffix=".yaml", encoding="utf-8", delete=False) as file:
        file.write(text)
    new = Path(file.name)
    try:
        (test,) = load_file(str(new)).tests
        if any(test.name == one.name for one in load_tests(root).tests):
            raise UsageError(f"there is a test {test.name!r} already")
        path = root / f"{test.name}.yaml"
        new.chmod(0o644)
        os.link(new, path)  # unlike a rename, this replaces nothing
    except InvalidFileError as error:
        raise UsageError("\n".join(f"{one.path or 'the file'}: {one.what}" for one in error.problems)) from error
    except FileExistsError:
        raise UsageError(f"{path}: there is a file already") from None
    finally:
        with suppress(FileNotFoundError):
            new.unlink()
    return test, path

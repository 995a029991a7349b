"""Print a test as a Kubernetes object in YAML, to try a workload.

Nothing collects or judges what you apply with kubectl. The workload writes below the storage root if that is a bucket,
else into the bucket OUTPUT_BUCKET of the config map `gcs-buckets`.

examples:
  ml-metrics render include/metric_configs/mnist-cpu.yaml
  ml-metrics render mnist-cpu.yaml --job | kubectl apply -f -
"""

from __future__ import annotations

from typing import Any

from ml_metrics.airflow import job_set, with_parameters
from ml_metrics.airflow.clusters import manifests
from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.loading import load_file
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.store.storage import is_local, join
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_flag, add_value, pair
from ml_metrics.ui.cli.output import print_json

OUTSIDE = """\
# Applied with kubectl, it runs beside ML Metrics: no row, verdict or message follows from its runs.
# Airflow runs the test file instead, with its schedule; see docs/kubernetes.md, `Jobs beside Airflow`."""


def add_arguments(parser: Parser) -> None:
    add_value(parser, "test_file", "TEST_FILE", "a test file")
    add_value(parser, "--test", "NAME", "which test, if the file defines several")
    add_value(parser, "--param", "NAME=VALUE", "another value of a parameter", pair, action="append", default=[])
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--job", action="store_const", dest="kind", const="job", help="a Job that runs it once (default)")
    kind.add_argument("--pod", action="store_const", dest="kind", const="pod", help="the bare pod")
    kind.add_argument("--cronjob", action="store_const", dest="kind", const="cronjob", help="a CronJob")
    parser.set_defaults(kind="job")
    add_flag(parser, "--json", "print one JSON document, a Kubernetes List")


def run(arguments: Arguments) -> int:
    test = _chosen(load_file(arguments.test_file).tests, arguments.test, arguments.test_file)
    test = with_parameters(test, dict(arguments.param))
    documents = [_object(test, arguments.kind)]
    service = manifests.service(test)
    if service is not None and arguments.kind != "pod":
        documents.insert(0, service)
    if arguments.json:
        print_json({"apiVersion": "v1", "kind": "List", "items": documents})
    else:
        if arguments.kind != "pod":
            print(OUTSIDE)
        print(_yaml(documents), end="")
    return 0


def _chosen(tests: tuple[TestDefinition, ...], name: str | None, file: str) -> TestDefinition:
    names = [test.name for test in tests]
    if not tests:
        raise UnreadableInputError(f"{file} is a metric config: it defines no test to render")
    if name is None and len(tests) == 1:
        return tests[0]
    for test in tests:
        if test.name == name:
            return test
    if name is None:
        raise UsageError(f"{file} defines several tests: choose one with --test: {', '.join(names)}")
    raise UsageError(f"{file} defines no test {name!r}{did_you_mean(name, names)} (it defines {', '.join(names)})")


def _object(test: TestDefinition, kind: str) -> manifests.Manifest:
    root = Settings.load().storage_root
    run_dir = None if is_local(root) else join(root, test.name, "$(JOB_NAME)")
    if test.job_set is not None and kind == "job":
        return job_set(test, run_dir=run_dir)
    make = {"job": manifests.job, "pod": manifests.pod, "cronjob": manifests.cron_job}[kind]
    return make(test, run_dir=run_dir)


def _yaml(documents: list[Any]) -> str:
    import yaml

    # equal parts are repeated, without anchors and aliases
    plain = type("Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    return str(yaml.dump_all(documents, Dumper=plain, sort_keys=False, width=120, allow_unicode=True))

"""`ml-metrics render`: the Kubernetes object of a test, for kubectl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.clusters import manifests
from ml_metrics.clusters.parameters import with_parameters
from ml_metrics.config.load import load_file
from ml_metrics.errors import UnreadableInputError
from ml_metrics.settings import Settings
from ml_metrics.storage import is_local, join

if TYPE_CHECKING:
    import argparse

    from ml_metrics.config.definition import TestDefinition

ABOUT = """\
Print the Kubernetes object of a test as YAML. Parameters have the values that the test file gives them. A test of
several hosts has a headless service, too.

The workload writes into a folder of the storage root, if that is a bucket, and otherwise into one of the bucket that
the config map `gcs-buckets` names as OUTPUT_BUCKET.

  ml-metrics render include/metric_configs/mnist-cpu.yaml
  ml-metrics render include/metric_configs/mnist-cpu.yaml --cronjob | kubectl apply -f -"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("test_file", metavar="TEST_FILE", help="a test file")
    parser.add_argument("--test", metavar="NAME", help="which test, where the file makes several")
    parser.add_argument(
        "--param", metavar="NAME=VALUE", action="append", default=[], help="another value of a parameter"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--job", action="store_const", dest="kind", const="job", help="a Job that runs it once (default)")
    kind.add_argument("--pod", action="store_const", dest="kind", const="pod", help="the bare pod")
    kind.add_argument("--cronjob", action="store_const", dest="kind", const="cronjob", help="a CronJob")
    parser.set_defaults(kind="job")


def run(arguments: argparse.Namespace) -> int:
    """Print the object."""
    import yaml

    test = _chosen(load_file(arguments.test_file).tests, arguments.test, arguments.test_file)
    test = with_parameters(test, dict(_pair(text) for text in arguments.param))
    documents = [_object(test, arguments.kind)]
    service = manifests.service(test)
    if service is not None and arguments.kind != "pod":
        documents.insert(0, service)
    print(yaml.dump_all(documents, Dumper=_plain(yaml), sort_keys=False, width=120, allow_unicode=True), end="")
    return 0


def _chosen(tests: tuple[TestDefinition, ...], name: str | None, file: str) -> TestDefinition:
    names = ", ".join(test.name for test in tests)
    if not tests:
        raise UnreadableInputError(f"{file} is a metric config: it holds no test to render")
    if name is None and len(tests) == 1:
        return tests[0]
    for test in tests:
        if test.name == name:
            return test
    raise UnreadableInputError(
        f"{file} makes several tests: say which by --test: {names}"
        if name is None
        else f"{file} makes no test {name!r}; it makes {names}"
    )


def _object(test: TestDefinition, kind: str) -> manifests.Manifest:
    root = Settings.load().storage_root
    run_dir = None if is_local(root) else join(root, test.name, "$(JOB_NAME)")
    if kind == "pod":
        return manifests.pod(test, run_dir=run_dir)
    return manifests.cron_job(test, run_dir=run_dir) if kind == "cronjob" else manifests.job(test, run_dir=run_dir)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UnreadableInputError(f"--param {text!r}: write NAME=VALUE")
    return name, value


def _plain(yaml: Any) -> Any:
    """A writer that repeats what is the same, for people, instead of pointing at it."""

    class Plain(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  (PyYAML's signature)
            return True

    return Plain

"""The Jsonnet library, compared with the catalogue, and the examples of the tutorial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import _gojsonnet
import pytest
import yaml

from golden import check
from ml_metrics.clusters.manifests import cron_job, job
from ml_metrics.config.accelerator import Kind
from ml_metrics.config.accelerator_catalogue import catalogue
from ml_metrics.config.jsonnet import ANNOTATION
from ml_metrics.config.load import load_file
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from ml_metrics.config.accelerator import Accelerator
    from ml_metrics.config.definition import TestDefinition

TEMPLATES = Path(__file__).parents[3] / "include" / "templates"

MNIST = """
local base = import 'templates/base.libsonnet';

local mnist = base.BaseTest {
  frameworkPrefix: "tf",
  modelName: "mnist",
  mode: "example",

  timeout: 3600, # 1 hour, in seconds
%s
  image: 'gcr.io/your-project/tensorflow', # Change 'your-project' to your project id
  imageTag: 'r2.2',

  accelerator: base.cpu,

  command: [
    'python3',
    'official/vision/image_classification/mnist_main.py',
    '--data_dir=$(MNIST_DIR)',
    '--num_gpus=0',
    '--train_epochs=1',
    '--model_dir=$(OUTPUT_BUCKET)/mnist/$(JOB_NAME)',
  ],
};

"""
NIGHTLY = "  schedule: '0 */1 * * *',\n  publisherImage: 'gcr.io/your-project/publisher:latest',\n"
CONFIGURED = (
    NIGHTLY
    + """
  metricCollectionConfig+: {
    metric_to_aggregation_strategy: {
      epoch_sparse_categorical_accuracy: ['final'],
    },
  },
  regressionTestConfig: {
    metric_success_conditions: {
      epoch_sparse_categorical_accuracy_final: {
        comparison: 'greater',
        success_threshold: {
          fixed_value: 0.96,
        },
      },
    },
  },
"""
)


def written(folder: Path, extra: str, end: str) -> tuple[Path, TestDefinition]:
    path = folder / "mnist-cpu.jsonnet"
    path.write_text(MNIST % extra + end, encoding="utf-8")
    (test,) = load_file(path).tests
    return path, test


def by_the_program(path: Path) -> dict:
    """What the `jsonnet` program makes of it, without the annotation that is ours to read."""
    output = json.loads(_gojsonnet.evaluate_file(str(path), jpathdir=[str(TEMPLATES.parent)]))
    made = yaml.safe_load(output) if isinstance(output, str) else output
    assert made["metadata"].pop("annotations").keys() == {ANNOTATION}
    return made


LIBRARY = """\
// Every accelerator, by its name with `_` for `-`: `base.cpu`, `base.t4`, `base.v5litepod_16`.
// Written from the catalogue in ml_metrics/config by tests/unit/config/test_templates.py, with UPDATE_GOLDEN=1.
local on(resource, count, name, hosts, nodeSelector) = {
  name: name,
  hosts: hosts,
  resources: { [resource]: std.toString(count) },
  nodeSelector: nodeSelector,
  tolerations:
    if nodeSelector == {} then []
    else [{ key: resource, operator: 'Exists', effect: 'NoSchedule' }],
};
local gpu(name, count, label) =
  on('nvidia.com/gpu', count, name, 1, { 'cloud.google.com/gke-accelerator': label });
local tpu(name, hosts, count, label, topology) =
  on('google.com/tpu', count, name, hosts, {
    'cloud.google.com/gke-tpu-accelerator': label,
    'cloud.google.com/gke-tpu-topology': topology,
  });
local tpuNode(name, cores, resource) = on(resource, cores, name, 1, {});

{
  cpu:: { name: 'cpu', hosts: 1, resources: {}, nodeSelector: {}, tolerations: [] },
"""


def call_of(made: Accelerator) -> str:
    """The library's line for an accelerator."""
    labels = [repr(label) for label in made.node_selector.values()]
    if made.kind is Kind.GPU:
        call = ["gpu", repr(made.name), made.per_host, *labels]
    elif labels:
        call = ["tpu", repr(made.name), made.hosts, made.per_host, *labels]
    else:
        call = ["tpuNode", repr(made.name), made.per_host, repr(made.resource)]
    return f"  {made.name.replace('-', '_')}:: {call[0]}({', '.join(map(str, call[1:]))}),\n"


def test_the_library_has_every_accelerator_of_the_catalogue() -> None:
    lines = [call_of(made) for made in catalogue().values() if made.kind is not Kind.CPU]
    check(str(TEMPLATES / "accelerators.libsonnet"), "".join([LIBRARY, *lines, "}\n"]))


def test_accelerators_of_the_library_and_the_catalogue_are_equal() -> None:
    names = ", ".join(f"{name!r}: a.{name.replace('-', '_')}" for name in catalogue())
    program = f"local a = import 'accelerators.libsonnet'; {{ {names} }}"
    accelerators = json.loads(_gojsonnet.evaluate_snippet("all", program, jpathdir=[str(TEMPLATES)]))
    assert accelerators == {
        name: {
            "name": name,
            "hosts": made.hosts,
            "resources": {made.resource: str(made.per_host)} if made.resource else {},
            "nodeSelector": made.node_selector,
            "tolerations": list(made.tolerations),
        }
        for name, made in catalogue().items()
    }


def test_the_tutorials_job(tmp_path: Path) -> None:
    path, test = written(tmp_path, "", "mnist.oneshotJob")
    assert (test.name, test.schedule, test.image) == (
        "tf-mnist-example-cpu",
        None,
        "gcr.io/your-project/tensorflow:r2.2",
    )
    assert by_the_program(path) == job(test)


def test_the_tutorials_cron_job_has_a_condition_for_the_wall_time(tmp_path: Path) -> None:
    path, test = written(tmp_path, NIGHTLY, "std.manifestYamlDoc(mnist.cronJob)")
    assert test.schedule == "0 */1 * * *"
    assert list(test.regression_test_config.metric_success_conditions) == ["total_wall_time"]
    assert by_the_program(path) == cron_job(test)


def test_the_tutorials_configs(tmp_path: Path) -> None:
    path, test = written(tmp_path, CONFIGURED, "std.manifestYamlDoc(mnist.cronJob)")
    assert list(test.metric_collection_config.metric_to_aggregation_strategy) == ["epoch_sparse_categorical_accuracy"]
    (condition,) = test.regression_test_config.metric_success_conditions.values()
    assert condition.success_threshold.fixed_value == 0.96
    assert by_the_program(path) == cron_job(test)


@pytest.mark.parametrize("name", ["t4", "h100x8", "v2_8", "v5litepod_16", "v5p_8"])
def test_jsonnet_and_python_make_the_same_job_for_an_accelerator(tmp_path: Path, name: str) -> None:
    path = tmp_path / "test.jsonnet"
    extra = f"accelerator: base.{name}, mode: 'func', cpu: 4, memory: '16Gi', envMap: {{ A: 1 }}, timeout: '1h30m',"
    path.write_text(MNIST % "" + f"(mnist {{ {extra} }}).oneshotJob", encoding="utf-8")
    (test,) = load_file(path).tests
    assert test.accelerator == catalogue()[name.replace("_", "-")]
    assert by_the_program(path) == job(test)


def test_a_misspelt_field_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="BaseTest has no field timeOut"):
        written(tmp_path, "  timeOut: 3,", "mnist.oneshotJob")


def test_a_mixin_sets_mode_and_schedule(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonnet"
    path.write_text(MNIST % "" + "(mnist + base.Convergence).test", encoding="utf-8")
    (test,) = load_file(path).tests
    assert (test.name, test.schedule) == ("tf-mnist-conv-cpu", "0 6 * * 0,3")


def test_the_former_name_of_a_template_can_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonnet"
    test = "{ name: 'former-name', image: 'python:3.11', command: ['true'], owner: null }"
    path.write_text(f"local said = import 'templates/said.libsonnet'; said({test})", encoding="utf-8")
    (definition,) = load_file(path).tests
    assert (definition.name, definition.owner) == ("former-name", "unowned")

"""Clusters by name: the file of a deployment, and the options of a test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from docstrings import docstrings
from golden import check
from ml_metrics import ConfigError, TestDefinition
from ml_metrics.config.clusters import ClusterAccess, Clusters, cluster_of, configured_clusters
from ml_metrics.config.loading import load_file
from ml_metrics.config.policy import Policy, refused_in
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.settings_file import read_once

GKE = {"project": "p", "location": "l"}
ACCOUNT = "tests@p.iam.gserviceaccount.com"


def test_of(**more: Any) -> TestDefinition:
    return TestDefinition.model_validate({"name": "t", "image": "i", "command": ["x"], **more})


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a file of clusters, and the setting that names it."""

    def write(clusters: dict[str, Any]) -> Path:
        file = tmp_path / "clusters.yaml"
        file.write_text(yaml.safe_dump({"clusters": clusters}, sort_keys=False))
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTERS", str(file))
        return file

    return write


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "give `project` and `location` of a GKE cluster, `kubernetes_conn_id`, or `in_cluster`"),
        ({"namespace": "n"}, "give `project` and `location`"),
        ({"project": "p"}, "'project' is for GKE, which needs `project` and `location`"),
        ({"use_dns_endpoint": True}, "'use_dns_endpoint' is for GKE, which needs `project` and `location`"),
        ({"impersonation_chain": ACCOUNT}, "'impersonation_chain' is for GKE, which needs"),
        ({**GKE, "use_dns_endpoint": True, "use_internal_ip": True}, "a connection has one address"),
        ({**GKE, "kubernetes_conn_id": "k"}, "'project' is for GKE and 'kubernetes_conn_id' for other clusters"),
        ({**GKE, "in_cluster": True}, "'project' is for GKE and 'in_cluster' for other clusters"),
        ({"in_cluster": True, "kubernetes_conn_id": "k"}, "`in_cluster` uses no connection and no context"),
        ({"in_cluster": True, "context": "c"}, "`in_cluster` uses no connection and no context"),
        ({"context": "c"}, "needs `kubernetes_conn_id`"),
        ({"gcp_conn_id": "g", "in_cluster": True}, "'gcp_conn_id' is for GKE"),
        ({**GKE, "use_dns_endpiont": True}, "did you mean 'use_dns_endpoint'"),
        ({**GKE, "use_dns_endpoint": "maybe"}, "should be true or false"),
        ({**GKE, "impersonation_chain": "tests"}, "'tests' is not a service account like"),
        ({**GKE, "impersonation_chain": [ACCOUNT, ""]}, "'' is not a service account like"),
        ({**GKE, "impersonation_chain": []}, "should not be empty"),
        ({**GKE, "gcp_conn_id": ""}, "should not be empty"),
        ({**GKE, "gcp_conn_id": 3}, "should be text in quotes"),
    ],
)
def test_a_mistake_is_named_with_its_line(options: dict[str, Any], what: str, use: Any) -> None:
    file = use({"good": {"in_cluster": True}, "bad": options})
    with pytest.raises(InvalidFileError) as error:
        configured_clusters()
    assert what in str(error.value)
    assert str(error.value).startswith(f"{file}:")
    assert ": clusters.bad" in str(error.value)


@pytest.mark.parametrize("name", ["auto", "local", "kubernetes", "Upper", "a/b", "", "-a"])
def test_a_name_that_means_something_else_is_refused(name: str, use: Any) -> None:
    use({name: {"in_cluster": True}})
    with pytest.raises(InvalidFileError, match="is not the name of a cluster"):
        configured_clusters()


def test_a_test_names_a_cluster_shortly_or_by_its_address(use: Any) -> None:
    use({"tpus": {**GKE, "use_dns_endpoint": True, "impersonation_chain": ACCOUNT}, "lab": {"kubernetes_conn_id": "k"}})
    by_name = cluster_of(test_of(cluster="tpus"))
    assert (
        by_name
        == ClusterAccess(**GKE, name="tpus", use_dns_endpoint=True, impersonation_chain=(ACCOUNT,))
        == cluster_of(test_of(cluster={"name": "tpus"}))
    )
    assert cluster_of(test_of(cluster={**GKE, "name": "tpus"})) == by_name, "older test files get the same connection"
    assert cluster_of(test_of(cluster={**GKE, "name": "other"})) == ClusterAccess(**GKE, name="other")
    assert cluster_of(test_of(cluster="lab")) == ClusterAccess(kubernetes_conn_id="k")
    assert cluster_of(test_of()) is None


def test_without_the_setting_an_address_is_enough() -> None:
    assert cluster_of(test_of(cluster={**GKE, "name": "n"})) == ClusterAccess(**GKE, name="n")
    with pytest.raises(ConfigError, match=r"'n' is the name of a cluster.*set \[ml_metrics\] clusters"):
        cluster_of(test_of(cluster="n"))


@pytest.mark.parametrize(("key", "missing"), [("project", "location"), ("location", "project")])
def test_half_an_address_is_refused(key: str, missing: str) -> None:
    with pytest.raises(ValueError, match=f"'{missing}' is missing"):
        test_of(cluster={"name": "n", key: "x"})


def test_the_default_cluster_can_be_a_name(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use({"tpus": GKE})
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "tpus")
    assert cluster_of(test_of()) == ClusterAccess(**GKE, name="tpus")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTER", "tpu")
    with pytest.raises(ConfigError, match=r"\[ml_metrics\] cluster: no cluster 'tpu'.*did you mean 'tpus'"):
        cluster_of(test_of())


def test_two_names_of_one_cluster_must_be_told_apart(use: Any) -> None:
    use({"one": {**GKE, "name": "n"}, "two": {**GKE, "name": "n", "impersonation_chain": ACCOUNT}})
    with pytest.raises(ConfigError, match=r"'one' and 'two' of \[ml_metrics\] clusters are both this cluster"):
        cluster_of(test_of(cluster={**GKE, "name": "n"}))
    assert cluster_of(test_of(cluster="one")) == ClusterAccess(**GKE, name="n")


def test_an_unknown_cluster_is_a_problem_of_the_test_file(use: Any, tmp_path: Path) -> None:
    use({"tpus": GKE})
    file = tmp_path / "configs" / "a.yaml"
    file.parent.mkdir()
    file.write_text("name: a\nimage: i\ncommand: [c]\ncluster: tpsu\n")
    with pytest.raises(InvalidFileError) as error:
        load_file(file)
    assert str(error.value).startswith(f"{file}:4: cluster: no cluster 'tpsu' in ")
    assert "did you mean 'tpus'?" in str(error.value)


def test_a_broken_file_of_clusters_stops_the_tests_that_need_it(use: Any, tmp_path: Path) -> None:
    use({"tpus": {}})
    file = tmp_path / "a.yaml"
    file.write_text("{name: a, image: i, command: [c], cluster: tpus}")
    with pytest.raises(InvalidFileError, match=r"clusters\.yaml:\d+: clusters\.tpus: give `project`"):
        load_file(file)
    file.write_text("{name: a, image: i, command: [c]}")
    assert load_file(file).tests


def test_authors_cannot_write_the_file(use: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use({"tpus": GKE})
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path))
    with pytest.raises(InvalidFileError, match="whose authors could change it"):
        configured_clusters()


def test_a_missing_file_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CLUSTERS", "/nowhere/clusters.yaml")
    with pytest.raises(InvalidFileError, match="the file of clusters cannot be read: No such file"):
        configured_clusters()


def test_a_policy_allows_clusters_by_name(use: Any) -> None:
    use({"tpus": GKE})
    test = test_of(cluster="tpus")
    assert not list(refused_in(test, Policy(clusters=("tpus",))))
    assert [where for where, _ in refused_in(test, Policy(clusters=("p/l/*",)))] == [("cluster",)]


DOC = Path(__file__).parents[3] / "docs" / "kubernetes.md"


def test_every_option_is_listed() -> None:
    text = DOC.read_text(encoding="utf-8")
    rows = [f"| `{key}` | {meaning} |" for key, meaning in docstrings(ClusterAccess).items()]
    assert len(rows) == len(ClusterAccess.model_fields)
    table = "\n".join(["| option | meaning |", "| --- | --- |", *rows])
    filled = f"<!-- keys: ClusterAccess -->\n\n{table}\n\n<!-- end -->"
    check(str(DOC), re.sub(r"<!-- keys: ClusterAccess -->.*?<!-- end -->", lambda _: filled, text, flags=re.DOTALL))


def test_the_example_is_valid(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(# /etc.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "clusters.yaml").write_text(example)
    known = read_once(tmp_path / "clusters.yaml", Clusters, "the file of clusters")
    assert set(known.clusters) == {"tpus", "lab", "here"}

"""Where a dataset is created, what a job may cost, and the labels of jobs: at the wire, as BigQuery receives them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics import ConfigError
from ml_metrics.core.errors import WarehouseError
from ml_metrics.core.settings import Settings
from ml_metrics.warehouse import BigQueryOptions, open_warehouse
from ml_metrics.warehouse.bigquery_options import job_labels, label_value
from servers.bigquery import IN_THE_US
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from servers.bigquery import BigQueryServer


def test_no_dataset_is_created_without_a_location(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    before = [one.dataset_id for one in client.list_datasets()]
    nowhere = open_warehouse(address, client=client, options=replace(IN_THE_US, location=""))
    with nowhere, pytest.raises(WarehouseError, match=r"no location is set.*BIGQUERY_LOCATION=EU"):
        nowhere.load(record(0))
    assert [one.dataset_id for one in client.list_datasets()] == before
    client.close()


def test_a_dataset_is_created_where_the_setting_says_and_never_used_elsewhere(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    name = address.removeprefix("bigquery://").replace("/", ".")
    with open_warehouse(address, client=client, options=replace(IN_THE_US, location="EU")) as warehouse:
        warehouse.ensure_schema()
    assert client.get_dataset(name).location == "EU"
    for same in ("eu", ""):
        with open_warehouse(address, client=client, options=replace(IN_THE_US, location=same)) as warehouse:
            warehouse.load(record(0))
    other = open_warehouse(address, client=client, options=IN_THE_US)
    with other, pytest.raises(WarehouseError, match=r"is in EU, and `bigquery_location` .* is US"):
        other.load(record(1))
    client.close()


def test_every_job_has_a_limit_and_labels(bigquery_server: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "Nightly.Resnet")
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    with open_warehouse(address, client=client, deployment="Prod EU", options=IN_THE_US) as warehouse:
        warehouse.ensure_schema()
        bigquery_server.front.jobs.clear()
        warehouse.load(record(0))
        warehouse.load(record(0))  # finds the job of the first, and counts the rows
        warehouse.runs.newest(TEST)
        warehouse.runs.tests()
        warehouse.known_tests.forget(TEST)
    client.close()
    jobs = bigquery_server.front.jobs
    common = {"deployment": "prod-eu", "dag": "nightly-resnet"}
    load, found_again, counted, newest, tests, forgotten = (dict(job["labels"]) for job in jobs)
    assert load.pop("content") == found_again.pop("content")
    for labels in (load, found_again, counted):
        assert labels == {**common, "ml_metrics": "load", "deployment": "local", "test": TEST}
    assert newest == {**common, "ml_metrics": "query", "test": TEST}
    assert tests == forgotten == {**common, "ml_metrics": "query"}
    assert {job["query"]["maximumBytesBilled"] for job in jobs} == {str(IN_THE_US.maximum_bytes_billed)}


def test_a_job_beyond_the_limit_names_the_setting(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    options = replace(IN_THE_US, maximum_bytes_billed=10 << 20)
    needed = r"limit for bytes billed: 10485760\. (\d+) or higher required.*MAXIMUM_BYTES_BILLED=\1$"
    with open_warehouse(address, client=client, options=options) as warehouse:
        with pytest.raises(WarehouseError, match=needed):
            warehouse.metrics.of_run(record(0).job.place)
        with pytest.raises(WarehouseError, match=f"nothing was written: .*{needed}"):
            warehouse.load(record(0))
        assert warehouse.runs.newest(TEST) == []
    client.close()


def test_options_are_those_of_the_settings() -> None:
    settings = Settings(bigquery_location="EU", maximum_bytes_billed="20971520")
    assert BigQueryOptions.of(settings) == BigQueryOptions("EU", 20971520, 400)
    assert BigQueryOptions.of(settings, "US").location == "US"
    assert BigQueryOptions.of(Settings()).maximum_bytes_billed == 10 << 30
    assert BigQueryOptions.of(Settings(maximum_bytes_billed="0")).limits == {}


def test_what_is_not_set_limits_nothing() -> None:
    assert BigQueryOptions() == BigQueryOptions(location="", maximum_bytes_billed=0, history_days=0)
    assert BigQueryOptions.of(Settings(history_days=" 30 ")).history_days == 30
    with pytest.raises(ConfigError, match=r"history_days: 'all' is not a whole number of days"):
        BigQueryOptions.of(Settings(history_days="all"))


def test_the_least_limit_is_what_bigquery_bills_for_any_query() -> None:
    assert BigQueryOptions.of(Settings(maximum_bytes_billed="10485760")).limits == {"maximum_bytes_billed": 10485760}
    with pytest.raises(ConfigError, match="10485759 is too low"):
        BigQueryOptions.of(Settings(maximum_bytes_billed="10485759"))


def test_another_error_is_left_as_it_is() -> None:
    assert BigQueryOptions().explained("No such table. Look again.") == "No such table. Look again."


@pytest.mark.parametrize("setting", ["10GB", "-1", "1024", "1e10"])
def test_a_limit_that_is_no_limit_is_an_error(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"\[ml_metrics\] maximum_bytes_billed: .*" + setting):
        BigQueryOptions.of(Settings(maximum_bytes_billed=setting))


@given(st.text(max_size=200))
def test_any_text_becomes_a_label(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9_-]{0,63}", label_value(text))


@given(st.from_regex(r"[a-z0-9_-]{1,63}", fullmatch=True))
def test_a_valid_name_is_its_own_label(name: str) -> None:
    assert label_value(name) == name
    assert job_labels("query", test=name)["test"] == name


@pytest.mark.parametrize(("length", "is_whole"), [(63, True), (64, False)])
def test_a_name_longer_than_a_label_may_be_ends_with_a_digest(length: int, *, is_whole: bool) -> None:
    value = label_value("a" * length)
    assert len(value) == 63
    assert (value == "a" * 63) == is_whole
    assert value.startswith("a" * 40)


def test_only_what_is_known_is_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job_labels("query") == {"ml_metrics": "query"}
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "A DAG")
    assert job_labels("load", "prod", "A.b") == {
        "ml_metrics": "load", "deployment": "prod", "test": "a-b", "dag": "a-dag",
    }  # fmt: skip


def test_two_long_names_have_two_labels() -> None:
    assert label_value("a" * 100 + "b") != label_value("a" * 100 + "c")

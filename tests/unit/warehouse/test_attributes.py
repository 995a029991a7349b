"""What is recorded about runs, on each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unit.warehouse.records import TEST, record, run_of

if TYPE_CHECKING:
    import pytest

    from ml_metrics.warehouse import Warehouse


def test_the_attributes_of_runs_are_read_once_and_only_when_used(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        record(0, metadata={"image_digest": "sha256:a", "param.epochs": "3", "notes": "n" * 2000}),
        record(1, metadata={"image_digest": "sha256:b"}),
        record(2, metadata={"image_digest": "sha256:c"}),
    ]
    warehouse.load_all(records)
    queries: list[str] = []
    query = type(warehouse.database).query

    def counted(self: Any, text: str, **parameters: Any) -> list[dict[str, Any]]:
        queries.append(text)
        return query(self, text, **parameters)

    monkeypatch.setattr(type(warehouse.database), "query", counted)
    ends = {each.key: each.job.timestamp for each in records[:2]}
    found = warehouse.attributes([TEST], ends, ("this", lambda: {"image_digest": "sha256:d", "framework": ""}))
    assert set(found) == {run_of(0).key, run_of(1).key, "this"}
    assert len(found) == 3
    assert queries == []
    first = found[run_of(0).key]
    assert {name: first[name] for name in ("image_digest", "param.epochs", "framework", "accelerator")} == {
        "image_digest": "sha256:a",
        "param.epochs": "3",
        "framework": records[0].job.framework_version,
        "accelerator": records[0].job.accelerator,
    }
    assert len(first["notes"]) == 500
    assert "uuid" not in first
    assert found[run_of(1).key]["image_digest"] == "sha256:b"
    assert found["this"] == {"image_digest": "sha256:d"}
    assert found.get(run_of(2).key) is None
    assert len(queries) == 2


def test_no_runs_have_no_attributes(warehouse: Warehouse) -> None:
    found = warehouse.attributes([TEST], {})
    assert not found
    assert found.get("none") is None

"""What Airflow stores of a DAG, by the way of the installed version: 3.1 has one module for it, later ones several."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def stored(dag: Any) -> dict[str, Any]:
    """Return the document of a DAG."""
    from airflow.serialization import serialized_objects

    kind: Any = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG
    document: dict[str, Any] = kind.to_dict(dag)
    return document


def stored_and_read(dag: Any) -> Any:
    """Return a DAG that was stored and read again: one of the scheduler."""
    from airflow.serialization import serialized_objects

    kind: Any = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG
    return kind.from_dict(stored(dag))


def interval_of_stored(deadline: Any) -> timedelta:
    """Return the interval of a deadline that was stored and read again."""
    try:
        from airflow.serialization.decoders import decode_deadline_alert
        from airflow.serialization.encoders import encode_deadline_alert
    except ModuleNotFoundError:  # 3.1
        interval: timedelta = deadline.deserialize_deadline_alert(deadline.serialize_deadline_alert()).interval
        return interval
    found: timedelta = decode_deadline_alert(encode_deadline_alert(deadline)).interval
    return found


def stored_timetable(timetable: Any) -> Any:
    """Return a timetable that was stored and read again: one of the scheduler."""
    try:
        from airflow.serialization.decoders import decode_timetable
        from airflow.serialization.encoders import encode_timetable
    except ModuleNotFoundError:  # 3.1
        from airflow.serialization.serialized_objects import decode_timetable, encode_timetable
    return decode_timetable(encode_timetable(timetable))

"""What a Secret must be: its entries in base64, also those that came as plain text."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from local_kube.records import Document


def admitted(secret: Document) -> Document:
    """A Secret with `stringData` taken in; RefusalError if `data` is not what it should be."""
    plain = secret.get("stringData") or {}
    data = {
        **(secret.get("data") or {}),
        **{name: base64.b64encode(text.encode()).decode() for name, text in plain.items()},
    }
    for name, text in data.items():
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise RefusalError(400, f"Secret in version v1 cannot be handled: data.{name} is not base64") from error
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {"type": "Opaque", **rest, "data": data}

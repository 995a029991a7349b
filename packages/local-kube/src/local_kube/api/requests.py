"""The parts of a request that several resources read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from local_kube.errors import ApiError

if TYPE_CHECKING:
    from starlette.requests import Request

    from local_kube.json_files import Document


async def body_of(request: Request, *, optional: bool = False) -> Any:
    """Return the JSON body of a request."""
    raw = await request.body()
    if optional and not raw:
        return {}
    try:
        return json.loads(raw)
    except ValueError as error:
        raise ApiError(400, f"the object provided is unrecognized: it is not JSON: {error}") from error


def media_type_of(request: Request) -> str:
    """Return the media type of a request's body, which for a patch names its format."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def check_version(plural: str, stored: Document, metadata: Document) -> None:
    """Raise ApiError if a change is based on an older version of the object than the stored one."""
    if metadata.get("resourceVersion", stored["resourceVersion"]) != stored["resourceVersion"]:
        raise ApiError(
            409,
            f'Operation cannot be fulfilled on {plural} "{stored["name"]}": the object has been modified; '
            "please apply your changes to the latest version and try again",
        )

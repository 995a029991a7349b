"""The pages inside the Airflow UI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from ml_metrics.dashboard.access import LOGGED_IN, readable_tests
from ml_metrics.errors import WarehouseError
from ml_metrics.operators.connections import warehouse

HERE = Path(__file__).parent
templates = Environment(
    loader=PackageLoader("ml_metrics.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
app = FastAPI(title="ML Metrics", docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/", dependencies=[LOGGED_IN])
def tests(readable: Annotated[frozenset[str], Depends(readable_tests)]) -> HTMLResponse:
    """Every test that the user may read, and how it stands."""
    try:
        with warehouse() as open_warehouse:
            found = [test for test in open_warehouse.tests() if test.test in readable]
    except WarehouseError as error:
        return HTMLResponse(templates.get_template("unreachable.html").render(reason=str(error)), status_code=503)
    return HTMLResponse(templates.get_template("tests.html").render(tests=found))


@app.get("/icon.svg")
def icon() -> FileResponse:
    """The sign in the navigation. The UI fetches it without a login, and it tells nothing."""
    return FileResponse(HERE / "icon.svg", media_type="image/svg+xml")

"""The databases of the journals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.cloud.journal import database as journal
from modules.cloud.storage.database.engine import make_engine, url_of
from tests.support.postgresql import PrivatePostgresql, needs_postgresql


@pytest.fixture(scope="package")
def postgresql() -> Iterator[str]:
    """Start a server."""
    with PrivatePostgresql() as server:
        yield server.url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "cloud.db")
    found = str(request.getfixturevalue("postgresql"))
    engine = make_engine(url_of(found))
    journal.tables.drop_all(engine)
    engine.dispose()
    return found

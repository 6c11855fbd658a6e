"""No controller fails in these tests: the engine would only log it, and look at the object again."""

from collections.abc import Iterator

import pytest

from tests.modules.cloud.controllers.site import Site


@pytest.fixture(autouse=True)
def no_controller_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.exc_info] == []


@pytest.fixture
def site() -> Site:
    return Site()

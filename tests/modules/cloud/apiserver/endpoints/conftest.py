"""The embedded API server behind its HTTP interface, without a socket."""

import pytest

from tests.modules.cloud.apiserver.endpoints.serving import Serving


@pytest.fixture
def api() -> Serving:
    return Serving()

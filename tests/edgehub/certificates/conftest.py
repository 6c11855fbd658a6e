"""A CA and a server that gives certificates as cloudcore does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edgehub.certificates.authority import Authority, CertificateServer


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(authority: Authority, tmp_path: Path) -> Iterator[CertificateServer]:
    with CertificateServer(authority, authority.server_context(tmp_path), tmp_path) as running:
        yield running

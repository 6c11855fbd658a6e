"""What cloudcores show each other: TLS handshakes in memory."""

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.cloudcore_credentials import CloudcoreCredentials
from modules.cloud.cloudhub.certificates.contexts import https_context
from modules.cloud.coordination.known_cloudcores import CLOUDCORES_ORGANIZATION
from modules.cloud.identities.node_identity import node_in
from tests.modules.cloud.cloudhub.certificates.made import chain
from tests.support.clocks import Ahead

NAME = "cloud.example"


CLOCK = Ahead()


class Site:
    """An authority, and a cloudcore of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = AuthorityFiles(directory / "tls")
        self.authority = open_authority(self.files, [NAME], CLOCK.now())
        self.clock = Ahead()
        self.credentials = CloudcoreCredentials(self.files, self.authority, "cloud-a-1", self.clock)

    def of_a_node(self) -> ssl.SSLContext:
        """A server that shows a node's certificate."""
        path = self.directory / "node.pem"
        path.write_bytes(chain(self.authority, "n1", CLOCK.now() - 60, 3600.0))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str = NAME) -> dict[str, object]:
    """The client's certificate as the server sees it. Raise SSLError if one of the two refuses."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(down, up, server_hostname=name)
    other = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for end in (one, other):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return dict(other.getpeercert() or {})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_cloudcore_shows_that_it_is_one(site: Site) -> None:
    """And is no node: nothing that a node may do is done in its name."""
    seen = shake_hands(site.credentials.context(), https_context(site.files))
    subject = [pair for names in seen["subject"] for pair in names]  # type: ignore[attr-defined]
    assert subject == [("organizationName", CLOUDCORES_ORGANIZATION), ("commonName", "cloud-a-1")]
    assert node_in(seen) == ""


def test_who_has_not_the_clouds_certificate_is_not_asked(site: Site, tmp_path: Path) -> None:
    """A node that takes a cloudcore's address, a cloud of another authority, and one of another name."""
    (tmp_path / "other").mkdir()
    other = Site(tmp_path / "other")
    for server, name in (
        (site.of_a_node(), NAME),
        (https_context(other.files), NAME),
        (https_context(site.files), "other.example"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(site.credentials.context(), server, name)


def test_a_cloudcore_of_another_authority_is_ignored(site: Site, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Site(tmp_path / "other")
    stranger = other.credentials.context()
    stranger.load_verify_locations(site.files.authority)
    with pytest.raises(ssl.SSLError):
        shake_hands(stranger, https_context(site.files))


def test_the_certificate_is_renewed_after_half_of_its_life(site: Site) -> None:
    """And nothing of it is on the disk. One that cannot be made is made at the next call."""
    before = sorted(path.name for path in site.files.directory.iterdir())
    first = site.credentials.context()
    assert site.credentials.context() is first
    site.clock.seconds = 12 * 3600.0
    hidden = site.files.authority.rename(site.directory / "hidden")
    with pytest.raises(OSError):
        site.credentials.context()
    hidden.rename(site.files.authority)
    second = site.credentials.context()
    assert second is not first
    assert shake_hands(second, https_context(site.files))
    assert sorted(path.name for path in site.files.directory.iterdir()) == before

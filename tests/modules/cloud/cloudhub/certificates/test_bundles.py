"""Bundles for nodes: pieces over the link's own certificates, at a rate, and nothing else of the disk."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beehive.clock import Clock, RealClock
from beehive.simulation import Simulation
from modules.cloud.cloudhub.certificates import bundles
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.bundles import PATH, PIECE, BundleDirectory
from modules.cloud.cloudhub.certificates.contexts import https_context
from modules.cloud.cloudhub.certificates.enrolment import EnrolmentRequest, EnrolmentResponse
from modules.cloud.cloudhub.certificates.https import HttpsServer
from modules.cloud.identities.peer import CertifiedPeer
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.upgrade import sources
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.sources import CloudBundles, Download, NoPieceError
from tests.modules.cloud.cloudhub.certificates.made import YEAR, chain
from tests.modules.processes.edgecore.upgrade.releases import KEY, bundle_with
from tests.packaging.bundle import public_key
from tests.support.clocks import StandingClock
from tests.support.failing import census, fail_at_each_kernel_call

NAME = "edgecore-1.2.3-cp311-x86_64.bundle"
NODE = CertifiedPeer("01", 0.0, node="n1", user="system:node:n1")
CONTENT = os.urandom(PIECE) + b"the end"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "bundles"
    made.mkdir()
    (made / NAME).write_bytes(CONTENT)
    return made


def ask(
    served: BundleDirectory, name: str = NAME, wanted: str = "bytes=0-", peer: CertifiedPeer | None = NODE
) -> EnrolmentResponse:
    """Ask for a piece."""
    return served.answer(EnrolmentRequest("GET", f"{PATH}{name}", {"range": wanted} if wanted else {}, peer=peer))


def served_from(
    directory: Path, rate: int = 100 * PIECE, refusal: str = "", clock: Clock | None = None
) -> BundleDirectory:
    return BundleDirectory(directory, clock or StandingClock(), rate, lambda _peer: refusal)


def test_a_node_gets_the_pieces_that_it_asks_for(directory: Path) -> None:
    served = served_from(directory)
    first = ask(served)
    assert (first.status, first.body) == (206, CONTENT[:PIECE])
    second = ask(served, wanted=f"bytes={PIECE}-{PIECE + 2}")
    assert (second.status, second.body) == (206, b"the")
    headers = dict(second.headers)
    assert headers["Content-Range"] == f"bytes {PIECE}-{PIECE + 2}/{len(CONTENT)}"
    assert headers["ETag"] == dict(first.headers)["ETag"]
    (directory / NAME).write_bytes(CONTENT + b"!")
    other = dict(ask(served).headers)["ETag"]
    assert other != headers["ETag"]
    os.utime(directory / NAME, (1.0, 1.0))
    assert dict(ask(served).headers)["ETag"] != other, "it may be another bundle of the same size"


def test_a_bundle_is_closed_whatever_is_answered(directory: Path) -> None:
    """A part of it, that it ends before, or that it is no file; or it cannot be read."""
    (directory / NAME.replace("1.2.3", "1.2.4")).mkdir()
    served, before = served_from(directory), census()
    answers = [ask(served), ask(served, wanted="bytes=9999999-"), ask(served, NAME.replace("1.2.3", "1.2.4"))]
    assert [answer.status for answer in answers] == [206, 416, 404]
    assert not census().more_than(before)
    assert fail_at_each_kernel_call(lambda: served._piece(NAME, 0, 9)) == 2


@pytest.mark.parametrize(
    ("peer", "refusal", "status"),
    [
        (None, "", HTTPStatus.UNAUTHORIZED),
        (CertifiedPeer("01", 0.0, user="alice"), "", HTTPStatus.UNAUTHORIZED),
        (NODE, "the certificate is revoked", HTTPStatus.FORBIDDEN),
    ],
)
def test_only_nodes_get_bundles(directory: Path, peer: CertifiedPeer | None, refusal: str, status: HTTPStatus) -> None:
    """By a certificate that is not locked out."""
    assert ask(served_from(directory, refusal=refusal), peer=peer).status is status


@pytest.mark.parametrize(
    "name",
    ["", "../key.pem", "edgecore-1-cp311-x86_64.bundle/../../key", "edgecore-../x-cp311-x86_64.bundle", "%2e%2e%2fkey",
     "edgecore-9.9.9-cp311-x86_64.bundle", "edgecore-0.0.1-cp311-link.bundle", "edgecore-0.0.1-cp311-fifo.bundle",
     "edgecore-0.0.1-cp311-directory.bundle"],
    ids=range(9),
)  # fmt: skip
def test_nothing_else_of_the_disk_is_served(directory: Path, name: str) -> None:
    """No path, no link, no device; a fifo holds up nobody."""
    (directory.parent / "key.pem").write_text("secret")
    (directory / "edgecore-0.0.1-cp311-link.bundle").symlink_to(directory.parent / "key.pem")
    os.mkfifo(directory / "edgecore-0.0.1-cp311-fifo.bundle")
    (directory / "edgecore-0.0.1-cp311-directory.bundle").mkdir()
    assert ask(served_from(directory), name).status is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "wanted", ["", "bytes=x", "bytes=-5", "bytes=9-3", f"bytes={10**9}-", f"bytes={len(CONTENT)}-", "lines=1-2"]
)
def test_a_range_has_to_be_asked_for(directory: Path, wanted: str) -> None:
    """So no response is larger than a piece."""
    assert ask(served_from(directory), wanted=wanted).status is HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE


def test_nodes_beyond_the_rate_are_told_when_to_come_again(directory: Path) -> None:
    served = served_from(directory, PIECE // 10)
    answers = [ask(served) for _ in range(6)]
    assert [each.status for each in answers] == [206] * 4 + [503] * 2
    assert dict(answers[-1].headers)["Retry-After"] == "11"


def test_a_node_that_asks_without_end_takes_no_turn_of_others(directory: Path) -> None:
    """Nor do two; the others come when they are told to. One that never comes again is waited for no longer."""
    simulation = Simulation(0)
    served = served_from(directory, PIECE, clock=simulation.clock)
    had: Counter[str] = Counter()

    def asks(name: str) -> int:
        answer = ask(served, peer=msgspec.structs.replace(NODE, node=name))
        had[name] += answer.status is HTTPStatus.PARTIAL_CONTENT
        return int(dict(answer.headers).get("Retry-After", 0))

    due = dict.fromkeys(("n1", "n2"), 0.0)
    for tick in range(600):
        for name in ("greedy", "mean"):
            asks(name)
        for name in due:
            if due[name] <= tick:
                due[name] = tick + 10 * max(1, asks(name))
        simulation.run_for(0.1)
    assert min(had["n1"], had["n2"]) >= 10, had
    assert max(had["greedy"], had["mean"]) <= 22, had
    simulation.run_for(10.0)
    assert [asks("greedy") for _ in range(4)] == [0, 0, 0, 0]


def test_the_turn_of_a_node_is_kept_as_long_as_it_was_told_to_wait(directory: Path) -> None:
    simulation = Simulation(0)
    served = served_from(directory, PIECE // 10, clock=simulation.clock)
    for _ in range(4):
        assert ask(served).status is HTTPStatus.PARTIAL_CONTENT
    late = msgspec.structs.replace(NODE, node="n2")
    assert dict(ask(served, peer=late).headers)["Retry-After"] == "11"
    simulation.run_for(11.0)
    assert ask(served).status is HTTPStatus.SERVICE_UNAVAILABLE, "it is the other node's turn"
    assert ask(served, peer=late).status is HTTPStatus.PARTIAL_CONTENT


@pytest.fixture
def node(tmp_path: Path) -> Iterator[EdgeCoreConfig]:
    """A node with a certificate, and the HTTPS server of its cloud."""
    clock = RealClock()
    files = AuthorityFiles(tmp_path / "tls")
    authority = open_authority(files, ["127.0.0.1"], clock.now() - YEAR)
    (tmp_path / "made").mkdir()
    (tmp_path / NAME).write_bytes(bundle_with(tmp_path / "made", 3 * PIECE + 7))
    served = BundleDirectory(tmp_path, clock, 100 * PIECE, lambda _peer: "")
    server = HttpsServer("127.0.0.1", 0, https_context(files), served.answer, clock)
    server.start()
    pem = tmp_path / "n1.pem"
    pem.write_bytes(chain(authority, "n1", clock.now() - YEAR, 2 * YEAR))
    config = EdgeCoreConfig.default()
    hub = msgspec.structs.replace(
        config.modules.edge_hub,
        http_server=f"https://127.0.0.1:{server.address[1]}",
        tls_ca_file=files.authority,
        tls_cert_file=pem,
        tls_private_key_file=pem,
    )
    yield msgspec.structs.replace(config, modules=msgspec.structs.replace(config.modules, edge_hub=hub))
    server.stop()


def test_a_node_fetches_a_bundle_from_its_cloud(node: EdgeCoreConfig, tmp_path: Path) -> None:
    """Over TLS, each piece with its certificate."""
    state = tmp_path / "state"
    state.mkdir()
    download = Download(CloudBundles(node, RealClock()).ask, (public_key(KEY),), state)
    assert download.fetch(NAME).read_bytes() == (tmp_path / NAME).read_bytes()


def test_each_name_of_a_bundle_reaches_its_file(node: EdgeCoreConfig, tmp_path: Path) -> None:
    """Also of a version that is no release, which has a plus sign, and is encoded on the way."""
    bundles = CloudBundles(node, RealClock())

    @settings(max_examples=20, deadline=None)
    @example("0.7.0.dev4977+g0123456789")
    @given(st.text(st.sampled_from("0aZ.+"), min_size=1, max_size=60))
    def reaches(version: str) -> None:
        name = f"edgecore-{version}-cp311-x86_64.bundle"
        (tmp_path / name).write_text(version)
        body = b""
        while not body:
            with suppress(NoPieceError):  # other pieces were asked for a moment ago
                body = bundles.ask(name, 0).body
        assert body == version.encode()

    reaches()


@pytest.mark.parametrize(
    "path",
    ["edgecore-1%252B2-cp311-x86_64.bundle", "%2e%2e%2fsecret", "..%2fbundles%2fedgecore-1%2B2-cp311-x86_64.bundle",
     "x%2f..%2fedgecore-1%2B2-cp311-x86_64.bundle", "%ff", "", "a/" * 70],
    ids=range(7),
)  # fmt: skip
def test_a_name_is_decoded_once(
    node: EdgeCoreConfig, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no name afterwards is refused, and no error of the server."""
    for name in ("edgecore-1+2-cp311-x86_64.bundle", "edgecore-1%2B2-cp311-x86_64.bundle", "secret"):
        (tmp_path / name).write_text("secret")
    monkeypatch.setattr(sources, "quote", str)
    with pytest.raises(UpgradeError, match="the cloud has no such bundle"):
        CloudBundles(node, RealClock()).ask(path, 0)


def test_of_many_nodes_the_one_that_was_served_longest_ago_is_forgotten(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "_MOST", 2)
    served = served_from(directory)
    for name in ("n1", "n2", "n1", "n3"):
        assert ask(served, peer=msgspec.structs.replace(NODE, node=name)).status == HTTPStatus.PARTIAL_CONTENT
    assert [*served._served] == ["n1", "n3"]

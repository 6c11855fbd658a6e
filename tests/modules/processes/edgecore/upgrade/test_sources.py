"""Where bundles come from: directories, and the cloud in pieces, over links that fail and from clouds that lie."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from beehive.errors import BeehiveError
from beehive.http.call import HttpReply
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.preconditions import UpgradeHost
from modules.processes.edgecore.upgrade.sources import (
    PATIENCE,
    PIECE,
    Download,
    NoPieceError,
    Piece,
    bundle_of,
    piece_of,
)
from tests.modules.processes.edgecore.upgrade.releases import KEY, bundle_with
from tests.packaging.bundle import public_key

NAME = "edgecore-1.2.3-cp311-x86_64.bundle"
KEYS = (public_key(KEY),)
HOST = UpgradeHost("x86_64", "3.11", None, "1.0.0")


def config_of(*sources: str) -> EdgeCoreConfig:
    """A node with these sources, whose link has no TLS."""
    config = EdgeCoreConfig.below(Path("/nowhere"))
    return msgspec.structs.replace(config, upgrade=msgspec.structs.replace(config.upgrade, sources=sources))


class Cloud:
    """Serves a file in pieces, and fails as a test wants it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.tag = "1-1"
        self.asked: list[int] = []
        self.before: Callable[[int], None] = lambda _number: None
        """Called before each answer, with its number."""
        self.now = 0.0

    def ask(self, _name: str, first: int) -> Piece:
        """Return a piece."""
        self.asked.append(first)
        self.before(len(self.asked))
        return Piece(self.content[first : first + PIECE], len(self.content), self.tag)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def download(self, state: Path) -> Download:
        """Return a download from it."""
        return Download(self.ask, KEYS, state, self.wait, lambda: self.now)


@pytest.fixture
def bundle(tmp_path: Path) -> bytes:
    """A bundle of five pieces."""
    return bundle_with(tmp_path, 4 * PIECE)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The directory of downloads."""
    directory = tmp_path / "state"
    directory.mkdir()
    return directory


def test_a_version_is_found_in_the_owners_directories(tmp_path: Path, state: Path) -> None:
    """In their order; a job can name no other place."""
    first, second = tmp_path / "a", tmp_path / "b"
    for directory in (first, second):
        directory.mkdir()
    (second / NAME).write_bytes(b"x")
    found = config_of(str(first), str(second))
    assert bundle_of("v1.2.3", found, state, HOST) == second / NAME
    assert bundle_of("1.2.3", found, state, HOST) == second / NAME
    for config, text in ((found, "1.2.4"), (config_of(), "1.2.3"), (config_of("cloudcore"), "1.2.3")):
        with pytest.raises(UpgradeError, match=r"no source has|has no TLS"):
            bundle_of(text, config, state, HOST)


def test_a_bundle_comes_in_pieces(bundle: bytes, state: Path) -> None:
    cloud = Cloud(bundle)
    assert cloud.download(state).fetch(NAME).read_bytes() == bundle
    assert cloud.asked == [PIECE * number for number in range(5)]
    assert [each.name for each in state.iterdir()] == [NAME]


def test_a_download_goes_on_where_the_link_was_cut(bundle: bytes, state: Path) -> None:
    """After a restart as well: only the last piece comes twice."""
    cloud = Cloud(bundle)

    def cut(number: int) -> None:
        if number in (2, 3):
            raise NoPieceError("connection reset", 5.0)
        if number == 6:
            raise KeyboardInterrupt

    cloud.before = cut
    with pytest.raises(KeyboardInterrupt):
        cloud.download(state).fetch(NAME)
    assert cloud.now >= 10.0
    cloud.before = lambda _number: None
    assert cloud.download(state).fetch(NAME).read_bytes() == bundle
    assert [first // PIECE for first in cloud.asked] == [0, 1, 1, 1, 2, 3, 2, 3, 4]


def test_a_cloud_that_stays_away_ends_it_and_keeps_what_has_come(bundle: bytes, state: Path) -> None:
    cloud = Cloud(bundle)

    def away(number: int) -> None:
        if number > 2:
            raise NoPieceError("no route", 9999.0)

    cloud.before = away
    with pytest.raises(UpgradeError, match="no route"):
        cloud.download(state).fetch(NAME)
    assert PATIENCE <= cloud.now < PATIENCE + 61.0, "however long it wants to be left alone"
    assert [each.stat().st_size for each in state.iterdir()] == [2 * PIECE]


def test_a_bundle_of_another_signer_costs_a_few_pieces(tmp_path: Path, state: Path) -> None:
    """The signature is checked before more of the disk is used, and nothing is left."""
    cloud = Cloud(bundle_with(tmp_path, 9 * PIECE))
    other = (public_key(Ed25519PrivateKey.generate()),)
    with pytest.raises(UpgradeError, match="trustedKeys"):
        Download(cloud.ask, other, state, cloud.wait, lambda: cloud.now).fetch(NAME)
    assert len(cloud.asked) == 2
    assert not list(state.iterdir())
    (state / f"{NAME}.1-1.part").write_bytes(cloud.content[: 5 * PIECE])
    with pytest.raises(UpgradeError, match="trustedKeys"):  # also of one that an earlier edgecore has begun
        Download(cloud.ask, other, state, cloud.wait, lambda: cloud.now).fetch(NAME)
    assert (len(cloud.asked), list(state.iterdir())) == (3, [])


def test_a_bundle_that_changes_on_the_way_begins_again_and_not_for_ever(bundle: bytes, state: Path) -> None:
    cloud = Cloud(bundle)

    def change(number: int) -> None:
        if number == 3:
            cloud.tag = "2-2"

    cloud.before = change
    assert cloud.download(state).fetch(NAME).read_bytes() == bundle
    assert [first // PIECE for first in cloud.asked] == [0, 1, 2, 0, 1, 2, 3, 4]
    cloud.before = lambda number: setattr(cloud, "tag", f"{number}-1")
    (state / NAME).unlink()
    with pytest.raises(UpgradeError, match="changes again"):
        cloud.download(state).fetch(NAME)


def test_a_bundle_is_no_larger_than_what_is_signed(tmp_path: Path, state: Path) -> None:
    """A genuine one of 10 kB, padded to 400 MiB, was fetched to its end before it was refused, at each job."""
    cloud = Cloud(bundle_with(tmp_path, 100) + bytes(300 * PIECE))
    with pytest.raises(UpgradeError, match="larger than what is signed"):
        cloud.download(state).fetch(NAME)
    assert len(cloud.asked) == 2
    assert not list(state.iterdir())


def test_a_bundle_does_not_grow_once_its_size_was_checked(bundle: bytes, state: Path) -> None:
    cloud = Cloud(bundle)

    def grow(number: int) -> None:
        if number == 3:
            cloud.content += bytes(300 * PIECE)

    cloud.before = grow
    with pytest.raises(UpgradeError, match="larger than what is signed"):
        cloud.download(state).fetch(NAME)
    assert [first // PIECE for first in cloud.asked] == [0, 1, 2, 0, 1]
    assert not list(state.iterdir())


def test_another_version_than_the_one_that_was_asked_for_is_refused(tmp_path: Path, state: Path) -> None:
    """The cloud has a genuine bundle, with an old fault, and gives it another name."""
    cloud = Cloud(bundle_with(tmp_path, 100, "1.2.0"))
    with pytest.raises(UpgradeError, match=r"1\.2\.0 under this name"):
        cloud.download(state).fetch(NAME)
    assert not list(state.iterdir())


@pytest.mark.parametrize("total", [2**40, 100])
def test_a_cloud_that_lies_about_the_size_is_not_believed(total: int, state: Path) -> None:
    """Nor fills the disk."""
    ask = lambda _name, _first: Piece(bytes(PIECE), total, "1-1")  # noqa: E731 - a cloud in a line
    with pytest.raises(UpgradeError, match="larger than any release"):
        Download(ask, KEYS, state).fetch(NAME)
    assert not list(state.iterdir())


def test_a_disk_without_room_takes_no_bundle(bundle: bytes, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = os.statvfs(state)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("U", (), {"free": 1024 * usage.f_frsize // 1024})())
    with pytest.raises(BeehiveError, match="no room"):
        Cloud(bundle).download(state).fetch(NAME)
    assert not list(state.iterdir())


RANGE = (("content-range", "bytes 0-3/4"), ("etag", '"1-1"'))


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (HttpReply(206, (RANGE[1],), b"abcd"), UpgradeError, "not the range"),
        (HttpReply(206, (RANGE[0],), b"abcd"), UpgradeError, "not the range"),
        (HttpReply(206, (("content-range", "bytes 4-7/8"), RANGE[1]), b"abcd"), UpgradeError, "not the range"),
        (HttpReply(206, (RANGE[0], ("etag", '"../x"')), b"abcd"), UpgradeError, "not the range"),
        (HttpReply(206, RANGE, b""), UpgradeError, "not the range"),
        (HttpReply(200, RANGE, b"abcd"), UpgradeError, "no such bundle"),
        (HttpReply(404, (), b"gone\x1b"), UpgradeError, "gone"),
        (HttpReply(503, (("retry-after", "7"),), b"busy"), NoPieceError, "busy"),
        (HttpReply(429, (), b"busy"), NoPieceError, "busy"),
        (HttpReply(503, (("retry-after", "9" * 50),), b"busy"), NoPieceError, "busy"),
    ],
    ids=range(10),
)
def test_answers_that_are_no_piece(reply: HttpReply, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        piece_of(reply, NAME, 0)


def test_an_answer_that_is_a_piece() -> None:
    assert piece_of(HttpReply(206, RANGE, b"abcd"), NAME, 0) == Piece(b"abcd", 4, "1-1")

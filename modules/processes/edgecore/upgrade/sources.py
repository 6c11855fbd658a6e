"""Where bundles are: a file, a directory, or the node's cloud, from which they are fetched in pieces.

A download goes on where the one before was cut off, also after a restart. After its first piece the manifest's
signature is checked, before more of the disk is used for it.
"""

import re
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from beehive.clock import Clock, RealClock
from beehive.files.advice import advice
from beehive.files.durable import put_in_place
from beehive.http.call import CallFailedError, HttpCall, HttpReply, Secured, perform
from beehive.on_failure import on_failure
from beehive.whole_numbers import whole_number
from edgehub.tls import client_context
from modules.processes.common.backup.archive import check_room
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.settings import certificate_settings
from modules.processes.edgecore.upgrade.bundle import LARGEST_MANIFEST, LARGEST_WHEELS, largest_of, read_manifest
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.preconditions import UpgradeHost
from modules.processes.edgecore.upgrade.versions import is_version

CLOUDCORE: Final = "cloudcore"
"""The source that is the node's cloud."""
PIECE: Final = 1024 * 1024
SECONDS: Final = 60.0
"""For a piece: 18 kB/s."""
PATIENCE: Final = 1800.0
"""Seconds without a piece after which a download is given up, and goes on with the next command."""
LONGEST_WAIT: Final = 60.0
_LARGEST: Final = LARGEST_WHEELS + 16 * 1024 * 1024
_MOST_CHANGES: Final = 3
_RANGE: Final = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})", re.ASCII)
_TAG: Final = re.compile(r'"[0-9a-f-]{1,60}"', re.ASCII)


def bundle_of(text: str, config: EdgeCoreConfig, state: Path, host: UpgradeHost) -> Path:
    """Return the file of a bundle that is named by its path, or by its version.

    Args:
        text: the path or the version, perhaps with a `v`.
        config: of the node, which names the sources.
        state: directory for downloads.
        host: this machine.

    Raises:
        UpgradeError: no source has it, or it cannot be fetched.
    """
    version = text.removeprefix("v")
    if Path(text).exists() or not is_version(version):
        return Path(text)
    name = f"edgecore-{version}-cp{host.python.replace('.', '')}-{host.machine}.bundle"
    if (state / name).is_file():
        return state / name
    for source in config.upgrade.sources:
        if source == CLOUDCORE:
            return Download(CloudBundles(config, RealClock()).ask, config.upgrade.trusted_keys, state).fetch(name)
        if (file := Path(source, name)).is_file():
            return file
    hint = "upgrade.sources names directories, or cloudcore" if not config.upgrade.sources else name
    raise UpgradeError("no source has the version", version, hint)


class Piece(NamedTuple):
    """A piece of a bundle."""

    body: bytes
    total: int
    """Bytes of the whole."""
    tag: str
    """Names this state of the file."""


class NoPieceError(Exception):
    """A piece that may come later.

    Args:
        why: the reason.
        seconds: that the server wants to be left alone.
    """

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class CloudBundles:
    """The bundles of the node's cloud, asked for with the node's certificate.

    Args:
        config: of the node.
        clock: for the limit of a piece.

    Raises:
        UpgradeError: the link has no TLS, so that the node has no certificate.
    """

    def __init__(self, config: EdgeCoreConfig, clock: Clock) -> None:
        settings = certificate_settings(config)
        if settings is None:
            raise UpgradeError("the cloud cannot be asked for bundles", hint="the link has no TLS, and no certificates")
        self._paths = settings.paths
        self._clock = clock
        parts = urlsplit(settings.server)
        self._host, self._port = parts.hostname or "", parts.port or 443

    def ask(self, name: str, first: int) -> Piece:
        """Return the piece of a bundle from an offset. Raises NoPieceError, and UpgradeError if there never is one."""
        headers = (("Accept-Encoding", "identity"), ("Range", f"bytes={first}-{first + PIECE - 1}"))
        call = HttpCall("GET", self._host, self._port, f"/bundles/{quote(name)}", headers, b"", "https")
        try:
            context = client_context(self._paths.authority, self._paths.certificate, self._paths.key)
            secured = Secured(context, self._host)
            reply = perform(call, self._clock, seconds=SECONDS, most_bytes=PIECE, secured=secured)
        except CallFailedError as error:
            raise NoPieceError(error.why) from error
        except OSError as error:
            raise NoPieceError(advice(error)) from error
        return piece_of(reply, name, first)


def piece_of(reply: HttpReply, name: str, first: int) -> Piece:
    """Read a response. Raises NoPieceError, and UpgradeError if there never is one."""
    headers = {key.lower(): value for key, value in reply.headers}
    said = "".join(char for char in reply.body[:200].decode("utf-8", "replace") if char.isprintable())
    if reply.status == HTTPStatus.PARTIAL_CONTENT:
        found, tag = _RANGE.fullmatch(headers.get("content-range", "")), headers.get("etag", "")
        if found is None or int(found[1]) != first or _TAG.fullmatch(tag) is None or not reply.body:
            raise UpgradeError("cannot fetch the bundle", name, "the answer is not the range that was asked for")
        return Piece(reply.body, int(found[3]), tag.strip('"'))
    if reply.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        raise NoPieceError(said, float(whole_number(headers.get("retry-after", "")[:4]) or 0))
    raise UpgradeError("the cloud has no such bundle", f"{name}: {reply.status}", said)


class Download:
    """The download of a bundle in pieces.

    Args:
        ask: returns the piece of a file from an offset.
        keys: public keys, one of which must have signed it.
        state: directory for the file.
        wait: lets seconds pass.
        monotonic: the time in seconds.
    """

    def __init__(
        self,
        ask: Callable[[str, int], Piece],
        keys: tuple[str, ...],
        state: Path,
        wait: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._keys = keys
        self._state = state
        self._wait = wait
        self._monotonic = monotonic

    def fetch(self, name: str) -> Path:
        """Return the file, complete. Raises UpgradeError."""
        try:
            for _ in range(_MOST_CHANGES):
                part = self._fetched(name)
                if part is not None:
                    return part
        except OSError as error:
            raise UpgradeError("cannot fetch the bundle", str(error.filename or name), advice(error)) from error
        raise UpgradeError("cannot fetch the bundle", name, "it changes again and again")

    def _fetched(self, name: str) -> Path | None:
        """Return the file; None if it has changed on the way."""
        begun = next(iter(self._state.glob(f"{name}.*.part")), None)
        tag = begun.name.removeprefix(f"{name}.").removesuffix(".part") if begun is not None else ""
        size = 0 if begun is None else max(0, (begun.stat().st_size - 1) // PIECE) * PIECE
        total = size + 1
        is_signed = is_begun = False
        while size < total:
            piece = self._next(name, size)
            if (tag and piece.tag != tag) or (is_begun and piece.total != total):
                self._forget(name)
                return None
            if piece.total > _LARGEST or len(piece.body) > PIECE or size + len(piece.body) > piece.total:
                self._forget(name)
                raise UpgradeError("cannot fetch the bundle", name, "it is larger than any release")
            if not tag:
                self._forget(name)
                check_room(self._state, piece.total)
            tag, total, is_begun = piece.tag, piece.total, True
            part = self._state / f"{name}.{tag}.part"
            with part.open("r+b" if part.exists() else "w+b") as file:
                file.truncate(size)
                file.seek(size)
                file.write(piece.body)
            size += len(piece.body)
            if not is_signed and size >= min(total, 2 * LARGEST_MANIFEST):
                self._check(name, part, total)
                is_signed = True
        return self._finished(name, part)

    def _next(self, name: str, first: int) -> Piece:
        """Return a piece; wait for it while the cloud is away, or busy with others."""
        began, delay = self._monotonic(), 1.0
        while True:
            try:
                return self._ask(name, first)
            except NoPieceError as error:
                if self._monotonic() - began >= PATIENCE:
                    raise UpgradeError("cannot fetch the bundle", name, str(error)) from error
                self._wait(min(max(delay, error.seconds), LONGEST_WAIT))
                delay *= 2

    def _check(self, name: str, part: Path, total: int) -> None:
        """Check the beginning of a download: who has signed it, that it is the bundle that was asked for, and that all
        of it has no more bytes than what was signed. Raise UpgradeError.
        """
        with on_failure(lambda: self._forget(name)):
            manifest = read_manifest(part, self._keys)
            if f"-{manifest.version}-" not in name:
                raise UpgradeError("cannot fetch the bundle", name, f"the cloud has {manifest.version} under this name")
            if total > largest_of(manifest):
                raise UpgradeError("cannot fetch the bundle", name, "it is larger than what is signed")

    def _finished(self, name: str, part: Path) -> Path:
        file = self._state / name
        put_in_place(part, file)
        self._forget(name)
        sys.stderr.write(f"edgecore: {name} is here\n")
        return file

    def _forget(self, name: str) -> None:
        for part in self._state.glob(f"{name}.*.part"):
            part.unlink(missing_ok=True)

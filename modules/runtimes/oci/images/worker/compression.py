"""The plain bytes of a layer, whatever its compression: the first bytes decide, not the media type."""

import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

from modules.runtimes.oci.images.worker.errors import invalid

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_READ: Final = 256 * 1024
_MOST: Final = 1024 * 1024
"""Bytes that one step of a decompressor yields at most, however well the data is compressed."""
_ANY_GZIP: Final = 31
_ZSTD_WINDOW_LOG: Final = 27
"""Logarithm of the largest window, 128 MiB, that a zstd frame may ask for (zstd's own default)."""


def is_compressed(beginning: bytes) -> bool:
    """Return whether data that begins like this is compressed in a way that is known here."""
    return beginning.startswith((_GZIP, _ZSTD))


class ReadBytes(Protocol):
    """A file's `read`."""

    def __call__(self, most: int, /) -> bytes:
        """Return up to `most` bytes; none at the end."""


class _Decompressor(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class PlainBytes:
    """The decompressed bytes of a source, in pieces of at most 1 MiB.

    `consumed` is the number of compressed bytes read so far.
    """

    def __init__(self, read: ReadBytes) -> None:
        self._read = read
        self.consumed = 0
        first = self._more()
        while 0 < len(first) < len(_ZSTD) and (further := self._more()):
            first += further
        self._pieces = _pieces_of(first)
        self._pending = first
        self.next: Callable[[], bytes] = self._plain
        if self._pieces is not None:
            self._decompressor: Any = self._pieces()
            self.next = self._unpacked

    def _more(self) -> bytes:
        data = self._read(_READ)
        self.consumed += len(data)
        return data

    def _plain(self) -> bytes:
        pending, self._pending = self._pending, b""
        return pending or self._more()

    def _unpacked(self) -> bytes:
        while True:
            if self._decompressor.eof and not self._next_member():
                return b""
            if not self._pending and _wants_input(self._decompressor):
                self._pending = self._more()
                if not self._pending:
                    raise invalid("the compressed data ends too early")
            piece = self._step()
            if piece:
                return piece

    def _step(self) -> bytes:
        try:
            piece: bytes = self._decompressor.decompress(self._pending, _MOST)
        except (zlib.error, ValueError, EOFError, OSError) as error:
            raise invalid(f"the data cannot be decompressed: {error}") from None
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise invalid(f"the data cannot be decompressed: {error}") from None
        self._pending = getattr(self._decompressor, "unconsumed_tail", b"")
        return piece

    def _next_member(self) -> bool:
        """Begin with the next gzip member or zstd frame; return False at the end, which zeros may pad."""
        rest = self._decompressor.unused_data or self._more()
        while rest and not rest.strip(b"\0"):
            rest = self._more()
        if not rest or self._pieces is None:
            return False
        self._decompressor, self._pending = self._pieces(), rest
        return True


def _wants_input(decompressor: Any) -> bool:
    return bool(getattr(decompressor, "needs_input", True))


def _pieces_of(first: bytes) -> Callable[[], _Decompressor] | None:
    """Return the maker of decompressors for data that begins like this; None for plain data."""
    if first.startswith(_GZIP):
        return lambda: zlib.decompressobj(_ANY_GZIP)  # type: ignore[return-value]
    return _zstd() if first.startswith(_ZSTD) else None


def _zstd() -> Callable[[], _Decompressor]:
    """Return the maker of zstd decompressors: of a module of Python's, or of the machine's library."""
    try:
        module = _zstd_module()
    except ImportError:
        return _zstd_library()
    options = {module.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    return lambda: module.ZstdDecompressor(options=options)


def _zstd_library() -> Callable[[], _Decompressor]:
    from modules.runtimes.oci.images.worker.zstd_library import ZstdLibrary  # noqa: PLC0415 - only for a layer of this kind

    try:
        return ZstdLibrary(_ZSTD_WINDOW_LOG).decompressor
    except OSError:
        reason = "the layer is compressed with zstd, which this machine cannot unpack"
        raise invalid(reason, "apt-get install libzstd1, or pip install backports.zstd") from None


def _zstd_module() -> Any:
    """Return the module of Python 3.14, or the package that has the same for earlier ones. Raises ImportError."""
    import importlib  # noqa: PLC0415 - only for a layer of this kind

    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        import site  # noqa: PLC0415 - the worker runs without site-packages

        site.main()
        return importlib.import_module("backports.zstd")

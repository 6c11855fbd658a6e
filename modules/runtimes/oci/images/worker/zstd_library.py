"""Decompression of zstd by the machine's libzstd, which dpkg and others bring, for a Python without a module for it."""

import ctypes
from typing import Final

_LIBRARY: Final = "libzstd.so.1"
_WINDOW_LOG_MAX: Final = 100
"""ZSTD_d_windowLogMax of zstd.h."""


class ZstdError(Exception):
    """The data is not zstd's, or is damaged; named as in the modules for it."""


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


class ZstdLibrary:
    """The functions of libzstd. Raises OSError where it is not installed.

    Args:
        window_log: logarithm of the largest window that a frame may ask for.
    """

    def __init__(self, window_log: int) -> None:
        library = ctypes.CDLL(_LIBRARY)
        library.ZSTD_createDCtx.restype = ctypes.c_void_p
        library.ZSTD_freeDCtx.argtypes = (ctypes.c_void_p,)
        library.ZSTD_DCtx_setParameter.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
        library.ZSTD_DCtx_setParameter.restype = ctypes.c_size_t
        library.ZSTD_decompressStream.argtypes = (
            ctypes.c_void_p,
            ctypes.POINTER(_Buffer),
            ctypes.POINTER(_Buffer),
        )
        library.ZSTD_decompressStream.restype = ctypes.c_size_t
        library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
        library.ZSTD_getErrorName.argtypes = (ctypes.c_size_t,)
        library.ZSTD_getErrorName.restype = ctypes.c_char_p
        self._library = library
        self._window_log = window_log

    def decompressor(self) -> "ZstdFrame":
        """Return a decompressor for one frame."""
        return ZstdFrame(self._library, self._window_log)


class ZstdFrame:
    """The decompressor of one frame, with the interface of `compression.zstd.ZstdDecompressor`."""

    def __init__(self, library: ctypes.CDLL, window_log: int) -> None:
        self._library = library
        self._context = library.ZSTD_createDCtx()
        if not self._context:
            raise MemoryError
        self._checked(library.ZSTD_DCtx_setParameter(self._context, _WINDOW_LOG_MAX, window_log))
        self._out = ctypes.create_string_buffer(1)
        self._rest = b""
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def __del__(self) -> None:
        self._library.ZSTD_freeDCtx(self._context)

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return up to `max_length` bytes of the frame. Unused bytes of `data` are kept. Raises ZstdError."""
        data = self._rest + data
        if len(self._out) != max_length:
            self._out = ctypes.create_string_buffer(max_length)
        source = _Buffer(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), 0)
        target = _Buffer(ctypes.cast(self._out, ctypes.c_void_p), max_length, 0)
        left = self._checked(
            self._library.ZSTD_decompressStream(self._context, ctypes.byref(target), ctypes.byref(source))
        )
        rest = data[source.position :]
        self.eof = left == 0
        self.needs_input = not rest and target.position < max_length
        self._rest, self.unused_data = (b"", rest) if self.eof else (rest, b"")
        return ctypes.string_at(self._out, target.position)

    def _checked(self, result: int) -> int:
        if self._library.ZSTD_isError(result):
            raise ZstdError(self._library.ZSTD_getErrorName(result).decode())
        return result

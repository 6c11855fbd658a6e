"""Executables of a few instructions, which edgecore writes itself: see elf(5)."""

import struct
from typing import Final

_ADDRESS: Final = 0x400000
_ALIGNMENT: Final = 0x1000
_READ, _WRITE, _EXECUTE = 4, 2, 1
_LOAD: Final = 1
_STACK: Final = 0x6474E551
_SEGMENTS: Final = 2


def executable(machine: int, flags: int, bits: int, content: bytes) -> bytes:
    """Return a static executable, little endian, whose stack is not executed.

    Args:
        machine: e_machine, the kind of processor.
        flags: e_flags.
        bits: 64 or 32.
        content: instructions, beginning with the first one to execute, and data, which cannot be written.
    """
    start = content_address(bits)
    size = start - _ADDRESS + len(content)
    header_bytes, segment_bytes = _sizes(bits)
    identity = struct.pack("<4sBBB9x", b"\x7fELF", bits // 32, 1, 1)
    header = struct.pack(
        f"<HHI{'QQQ' if bits == 64 else 'III'}IHHHHHH",
        *(2, machine, 1, start, header_bytes, 0, flags, header_bytes, segment_bytes, _SEGMENTS, 0, 0, 0),
    )
    loaded = _segment(bits, _LOAD, _ADDRESS, size, _READ | _EXECUTE, _ALIGNMENT)
    return identity + header + loaded + _segment(bits, _STACK, 0, 0, _READ | _WRITE, 16) + content


def content_address(bits: int) -> int:
    """Return the address of an executable's first instruction."""
    header_bytes, segment_bytes = _sizes(bits)
    return _ADDRESS + header_bytes + _SEGMENTS * segment_bytes


def _sizes(bits: int) -> tuple[int, int]:
    return (64, 56) if bits == 64 else (52, 32)


def _segment(bits: int, kind: int, address: int, size: int, rights: int, alignment: int) -> bytes:
    if bits == 64:
        return struct.pack("<IIQQQQQQ", kind, rights, 0, address, address, size, size, alignment)
    return struct.pack("<IIIIIIII", kind, 0, address, address, size, size, rights, alignment)

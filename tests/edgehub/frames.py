"""Frames of a client, read as a server reads them; written from RFC 6455 and not from edgehub."""

from edgehub.framing import Opcode


def client_frames(data: bytes) -> list[tuple[Opcode, bytes]]:
    """Opcode and payload of each of the whole frames in `data`."""
    found = []
    while data:
        opcode, payload, data = next_frame(data)
        found.append((opcode, payload))
    return found


def next_frame(data: bytes) -> tuple[Opcode, bytes, bytes]:
    """Opcode and payload of the first frame, and what follows it.

    Raises:
        IndexError: it is not all there.
    """
    assert data[0] & 0xF0 == 0x80, "a client of ours never fragments and sets no reserved bit"
    assert data[1] & 0x80, "a client masks"
    length, start = data[1] & 0x7F, 2
    if length >= 126:
        size = 2 if length == 126 else 8
        length, start = int.from_bytes(data[2 : 2 + size], "big"), 2 + size
    if len(data) < start + 4 + length:
        raise IndexError("the frame is not all there")
    key, masked = data[start : start + 4], data[start + 4 : start + 4 + length]
    mask = int.from_bytes((key * (length // 4 + 1))[:length])
    payload = (int.from_bytes(masked) ^ mask).to_bytes(length)
    return Opcode(data[0] & 0x0F), payload, data[start + 4 + length :]

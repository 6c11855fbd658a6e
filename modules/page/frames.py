"""The bounds of the WebSocket frames between a node and a browser, which has none of its own."""

from typing import Final

from beehive.errors import BeehiveError

MOST_BYTES: Final = 1 << 20
"""Bytes of a message in all its frames; a container runtime sends pieces of some 32 KiB."""
_MOST_OF_CONTROL: Final = 125
_NO_STREAM: Final = "this is no stream of a shell"
_MASK: Final = 4
"""Bytes of the key that masks a browser's frame."""
_LENGTHS: Final = {126: 2, 127: 8}
"""Further bytes of the head that have the length, by the length in its second byte."""


class BrowserFrameError(BeehiveError):
    """A side does not send WebSocket frames, or too much in one message."""


class FrameBounds:
    """The bounds of frames, by their heads as they pass (RFC 6455 §5.2); contents are not kept.

    Args:
        masked: whether they come from the browser.
    """

    def __init__(self, *, masked: bool = False) -> None:
        self.frames = 0
        """Frames with data, which pings and pongs are not."""
        self._mask = _MASK if masked else 0
        self._head = bytearray()
        self._left = 0
        """Bytes of the present frame that have not come."""
        self._message = 0
        """Bytes of the frames of the present message, as their heads say."""
        self._is_whole = True

    @property
    def is_between(self) -> bool:
        """Whether the bytes so far end with a whole message."""
        return not self._head and not self._left and self._is_whole

    def check(self, data: bytes) -> None:
        """Read the next bytes. Raise BrowserFrameError."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) > 1:
                more = _LENGTHS.get(self._head[1] & 0x7F, 0)
                if len(self._head) == 2 + more + self._mask:
                    self._begin(bytes(self._head[: 2 + more]))
                    self._head.clear()

    def _begin(self, head: bytes) -> None:
        """Take over the head of a frame."""
        is_last, opcode = bool(head[0] & 0x80), head[0] & 0x0F
        length = int.from_bytes(head[2:]) if len(head) > 2 else head[1] & 0x7F
        if head[0] & 0x70 or bool(head[1] & 0x80) != bool(self._mask):
            raise BrowserFrameError(_NO_STREAM, hint="its frames are compressed, or masked by the wrong side")
        if opcode >= 8:
            if length > _MOST_OF_CONTROL or not is_last:
                raise BrowserFrameError(_NO_STREAM, hint="a control frame is too long")
        else:
            self.frames += 1
            self._message = length if opcode else self._message + length
            self._is_whole = is_last
            if self._message > MOST_BYTES:
                raise BrowserFrameError(
                    "the node sends too much in one message", hint=f"at most {MOST_BYTES >> 10} KiB"
                )
        self._left = length

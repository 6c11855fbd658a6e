"""The text of a request to an API server."""

import re
from typing import Final, NamedTuple

_NAME: Final = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_VALUE: Final = r"(?:[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*)?"
_IS_HEAD: Final = re.compile(rf"{_NAME} [\x21-\x7e]+ HTTP/1\.1\r\n(?:{_NAME}: {_VALUE}\r\n)+").fullmatch


class RequestHead(NamedTuple):
    """The method, target and headers of a request."""

    method: str
    target: str
    headers: list[tuple[str, str]]


def request_text(head: RequestHead, body: bytes) -> bytes:
    """Return a request as it is sent; its headers say the length of the body.

    Raises:
        ValueError: the method, the target or a header has characters that HTTP does not allow.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in head.headers])
    text = f"{head.method} {head.target} HTTP/1.1\r\n{lines}"
    if _IS_HEAD(text) is None or text.count("\n") != len(head.headers) + 1:
        raise ValueError("a character that HTTP does not allow")
    return f"{text}\r\n".encode("ascii") + body

"""Answers in YAML, for clients that ask for it (`Accept: application/yaml`)."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream, Takeover
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.options import rank

MOST_BYTES: Final = 4 * 1024 * 1024
"""Largest size of the answer in JSON: it takes a second or two to write so much in YAML."""
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
"""Texts without quotes, unless they mean something else."""
_OTHERS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def wants_yaml(request: Request) -> bool:
    """Return whether the client's Accept header prefers YAML to the other supported forms."""
    accept = request.header("accept")
    if _YAML not in accept:
        return False
    media = (each.partition(";")[0].strip() for each in sorted(accept.split(","), key=rank))
    return next((each for each in media if each in (_JSON, _YAML, "*/*", "application/*")), "") == _YAML


def in_json(request: Request) -> Request:
    """Return the request for the same answer in JSON."""
    headers = ((name, text.replace(_YAML, _JSON) if name == "accept" else text) for name, text in request.headers)
    return msgspec.structs.replace(request, headers=tuple(headers))


def in_yaml(reply: Reply, *, is_watch: bool) -> Reply:
    """Return an answer in YAML; an answer that is no JSON is returned unchanged.

    Args:
        reply: in JSON.
        is_watch: whether a watch is asked for.

    Raises:
        ApiStatusError: 406; it is a watch, or too long.
    """
    if isinstance(reply, Takeover) or reply.content_type != _JSON:
        return reply
    if isinstance(reply, Stream):
        if is_watch or reply.steps is None:
            reply.done()
            raise ApiStatusError(406, f"a watch has no form in YAML: accept {_JSON}")
        reply = Response(HTTPStatus.OK, _JSON, _begun(reply.steps(lambda: None)))
    if len(reply.body) > MOST_BYTES:
        raise ApiStatusError(406, f"the answer is too long for YAML: accept {_JSON}, or ask for parts with `limit`")
    return msgspec.structs.replace(reply, content_type=_YAML, body=yaml_of(decode_json(reply.body)))


def _begun(pieces: Iterator[bytes | float]) -> bytes:
    """Return a list, or so much of it that it is too long."""
    body = bytearray()
    for piece in pieces:
        body += piece if isinstance(piece, bytes) else b""
        if len(body) > MOST_BYTES:
            break
    return bytes(body)


def yaml_of(value: Any) -> bytes:
    """Return a value of JSON's types as YAML that readers of YAML 1.1 and 1.2 take for the same."""
    import yaml  # noqa: PLC0415 - few clients ask for it

    class Dumper(yaml.CSafeDumper):
        """The safe dumper without anchors."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as its base
            """Return that everything is written where it is."""
            return True

    def represented(dumper: Dumper, text: str) -> yaml.ScalarNode:
        is_plain = _PLAIN.fullmatch(text) and text.lower() not in _OTHERS
        style = "|" if "\n" in text else None if is_plain else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represented)
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=MOST_BYTES)
    return text.encode()

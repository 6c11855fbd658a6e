"""The registered mappers, and their rows in the node's store, in KubeEdge's form. Pure."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from beehive.decoding import decode_json
from modules.edge.dmi.errors import MapperCallRefused, RefusalStatus

if TYPE_CHECKING:
    from protos.dmi.v1beta1 import api_pb2 as dmi

MAX_MAPPERS: Final = 100
"""Largest number of mappers of one node."""

LONGEST_ADDRESS: Final = 107
"""Bytes of a unix socket's path."""

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_LONGEST_TEXT: Final = 253


class MapperRow(msgspec.Struct, frozen=True):
    """A registered mapper, in the form of KubeEdge's table `meta`."""

    name: str
    version: str = ""
    api_version: str = ""
    protocol: str = ""
    address: bytes = b""
    """Path of the mapper's socket; base64 in the row."""
    state: str = ""

    @property
    def socket(self) -> Path | None:
        """The path of the mapper's socket; None for a mapper that cannot be called."""
        return Path(self.address.decode()) if self.address else None


def encode_mapper(row: MapperRow) -> bytes:
    """Return the row of a mapper."""
    return msgspec.json.encode(row)


def decode_mapper(text: bytes) -> MapperRow:
    """Return the mapper of a row, checked by the rules for a registration.

    Raises:
        msgspec.DecodeError, UnicodeError: the row does not describe a mapper.
        MapperCallRefused: the mapper would not be accepted.
    """
    row = decode_json(text, MapperRow)
    _check(row)
    return row


def registered(request: "dmi.MapperRegisterRequest") -> MapperRow:
    """Return the mapper of a registration. Raises MapperCallRefused."""
    info = request.mapper
    row = MapperRow(info.name, info.version, info.api_version, info.protocol, bytes(info.address), info.state)
    _check(row)
    return row


def _check(row: MapperRow) -> None:
    if not row.protocol:
        raise _invalid(f"fail to register mapper {row.name[:100]} because the protocol is nil")
    if not _NAME.fullmatch(row.name):
        raise _invalid("a mapper's name has letters, digits and - _ . between them, at most 253 characters")
    texts = (row.version, row.api_version, row.protocol, row.state)
    if any(len(text) > _LONGEST_TEXT or not text.isprintable() for text in texts):
        raise _invalid(f"version, api_version, protocol and state have at most {_LONGEST_TEXT} printable characters")
    _check_address(row.address)


def _check_address(address: bytes) -> None:
    if not address:
        return
    try:
        text = address.decode()
    except UnicodeDecodeError:
        text = ""
    path = Path(text)
    if not text.isprintable() or not path.is_absolute() or ".." in path.parts or len(address) > LONGEST_ADDRESS:
        raise _invalid(
            f"the address is the absolute path of the mapper's unix socket, at most {LONGEST_ADDRESS} bytes without .."
        )


def _invalid(reason: str) -> MapperCallRefused:
    return MapperCallRefused(RefusalStatus.INVALID_ARGUMENT, reason)

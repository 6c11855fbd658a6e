"""The URLs of the cloud that applications of the node may call, as they are stored. Pure."""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from beehive.decoding import decode_json

_log = logging.getLogger(__name__)

MOST_URLS: Final = 1000
"""Maximum number of URLs that applications may call."""

_LONGEST_URL: Final = 1024


class StoredUrls(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored row."""

    urls: list[str] = []
    kubeedge: list[str] = []
    """KubeEdge's table as of the last merge."""


def read_urls(row: bytes) -> StoredUrls:
    """Decode a stored row. A row that cannot be decoded is logged and treated as empty."""
    try:
        found = decode_json(row, StoredUrls)
    except (msgspec.DecodeError, UnicodeError):
        _log.error("the stored URLs of applications cannot be decoded and are ignored")
        return StoredUrls()
    return StoredUrls(_valid(found.urls), _valid(found.kubeedge))


def merged(own: StoredUrls, kubeedge: Sequence[str]) -> StoredUrls:
    """Apply the URLs that KubeEdge's edgecore has added and removed since the last merge.

    KubeEdge's cloudcore announces each URL to a node only once: URLs that KubeEdge's edgecore has got are not announced
    again.
    """
    added = [url for url in kubeedge if url not in own.kubeedge]
    removed = [url for url in own.kubeedge if url not in kubeedge]
    kept = [url for url in own.urls if url not in removed]
    return StoredUrls([*kept, *(url for url in added if url not in kept)][:MOST_URLS], list(kubeedge))


def is_url(text: str) -> bool:
    """Return whether a string is acceptable as an application's URL."""
    return 0 < len(text) <= _LONGEST_URL and text.isprintable()


def _valid(urls: Sequence[str]) -> list[str]:
    return [url for url in urls if is_url(url)][:MOST_URLS]

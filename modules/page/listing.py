"""Lists of the Kubernetes API, read in parts."""

from collections.abc import Collection, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Final

from modules.apimachinery.printing.fields import JsonObject
from modules.cli.errors import StatusError
from modules.cli.list_parts import list_parts
from modules.kubectl.workload_events import ApiReader

NOT_SERVED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""Answers to a list of a kind that is not served, or not to this user."""


def listed(
    client: ApiReader, path: str, part: int, most: int, no_list: Collection[int] = NOT_SERVED
) -> Iterator[JsonObject]:
    """Yield the objects of a list, which are read when they are needed.

    Args:
        client: the Kubernetes API.
        path: of the list.
        part: objects of a request.
        most: objects that are yielded.
        no_list: statuses of answers that stand for an empty list.

    Raises:
        KubectlError: no server answers, it refuses, or it names too many parts.
    """
    try:
        parts = list_parts(lambda query: client.get(path, query), part)
        items = (each for answer in parts for each in answer.get("items") or () if isinstance(each, dict))
        yield from islice(items, most)
    except StatusError as refused:
        if refused.code not in no_list:
            raise

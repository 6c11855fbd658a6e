"""Reads the workloads whose pods cannot be made: no list of pods shows these."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.cli.errors import StatusError
from modules.cli.rest import path_of
from modules.insight.fleet.lacks import WORKLOADS, Lack, lack_of
from modules.kubectl.workload_events import ApiReader, refusal_of

_MOST: Final = 2000
"""Objects of a kind that are read."""
_PART: Final = 100
_NOT_SERVED: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


def read_lacks(client: ApiReader) -> list[Lack]:
    """Return the workloads of a fleet that lack something; of a kind that is not served, or not to this user, none.

    Raises:
        KubectlError: no server answers.
    """
    found = (
        lack_of(kind, each, lambda each=each, kind=kind: refusal_of(client, kind, each))  # type: ignore[misc]
        for plural, kind in WORKLOADS.items()
        for each in _objects(client, plural)
    )
    return [each for each in found if each is not None]


def _objects(client: ApiReader, plural: str) -> Iterator[JsonObject]:
    path, token, count = path_of("apis", "batch" if plural == "jobs" else "apps", "v1", plural), "", 0
    while count < _MOST:
        query = [("limit", str(_PART)), *([("continue", token)] if token else [])]
        try:
            part = client.get(path, query)
        except StatusError as refused:
            if refused.code not in _NOT_SERVED:
                raise
            return
        items = [each for each in part.get("items") or () if isinstance(each, dict)]
        yield from items
        count, token = count + len(items), text_at(part, "metadata.continue")
        if not token:
            return

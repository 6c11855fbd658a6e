"""Reads the workloads whose pods cannot be made: no list of pods shows these."""

from typing import Final

from modules.cli.rest import path_of
from modules.insight.fleet.lacks import WORKLOADS, Lack, lack_of
from modules.kubectl.workload_events import ApiReader, refusal_of
from modules.page.listing import listed

_MOST: Final = 2000
"""Objects of a kind that are read."""
_PART: Final = 100


def read_lacks(client: ApiReader) -> list[Lack]:
    """Return the workloads of a fleet that lack something; of a kind that is not served, or not to this user, none.

    Raises:
        KubectlError: no server answers.
    """
    found = (
        lack_of(kind, each, lambda each=each, kind=kind: refusal_of(client, kind, each))  # type: ignore[misc]
        for plural, kind in WORKLOADS.items()
        for each in listed(client, _path(plural), _PART, _MOST)
    )
    return [each for each in found if each is not None]


def _path(plural: str) -> str:
    return path_of("apis", "batch" if plural == "jobs" else "apps", "v1", plural)

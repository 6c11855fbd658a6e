"""Reads the jobs of nodes for the page: those of a page, and not again for each browser that asks."""

import threading
from collections.abc import Collection
from typing import Final

from beehive.clock import Clock
from modules.apimachinery.node_job_kinds import JobKind
from modules.cli.rest import object_path
from modules.cloud.jobs import JOBS
from modules.insight.fleet.jobs import JobRow, JobStory, job_row, job_story
from modules.page.feeds import ApiClient
from modules.page.listing import listed

MOST: Final = 200
"""Objects of a kind that are read."""
_PART: Final = 5
"""Objects of a part of a list: the status of one may have a megabyte."""
_PERIOD: Final = 2.0
"""Least seconds between two readings of the jobs."""
_SHARE: Final = 20.0
"""Times that the reading took: it goes on for a twentieth of the time at most."""


class JobReader:
    """A reader of the jobs of nodes. Thread-safe.

    Args:
        client: the Kubernetes API.
        clock: for the age of what was read.
    """

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: list[JobRow] = []
        self._good_until = float("-inf")

    def rows(self, here: Collection[str]) -> list[JobRow]:
        """Return the rows of the jobs, without those of kinds that are not served. Raises KubectlError.

        Args:
            here: nodes that are connected.
        """
        with self._lock:
            began = self._clock.monotonic()
            if began >= self._good_until:
                lists = ((kind, listed(self._client, object_path(JOBS[kind]), _PART, MOST)) for kind in JobKind)
                self._rows = [job_row(kind, job, here) for kind, found in lists for job in found]
                ended = self._clock.monotonic()
                self._good_until = ended + max(_PERIOD, _SHARE * (ended - began))
            return self._rows

    def story(self, kind: JobKind, name: str, here: Collection[str] | None, query: str) -> JobStory:
        """Return a job with its nodes (see `job_story`).

        Raises:
            KubectlError: there is no such job, or no server answers.
        """
        return job_story(kind, self._client.get(object_path(JOBS[kind], name=name)), here, query)

"""Two simulated cloudcores with embedded API servers and one database."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.turns import Turns
from modules.apimachinery.kinds import JsonObject, key_of, uid_of, version_of
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.lab.simulate.books import Loader, differences_of_books, parts_of
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.embedded_server import EmbeddedServer
from modules.lab.simulate.failing_database import FailingDatabase, SimulatedRoom
from modules.lab.simulate.second_cloudcore import SecondCloudcore
from modules.lab.simulate.status_watch import StatusWatch
from modules.lab.simulate.watch_order import WatchOrder
from modules.lab.simulate.world import Process, World

_LAGGING_SEEDS: Final = 3
"""In one seed of so many the second cloudcore never looks for the other's changes: it takes them over with its own."""
_BEHIND: Final = 2.0
"""Seconds after which a cloudcore has the changes of the other one, which it looks for each quarter of a second."""
_LAGGING: Final = 15.0
"""The same without looking: the cloudcore renews its Lease each 10 s."""
_UNTIL_FULL: Final = frozenset({"history", "floors"})
"""The books that a fresh load cannot have after a full disk, when changes are left out of the database."""


class PairedCloud(SimulatedCloud):
    """A cloud of one or two cloudcores, each with an embedded API server, that share a database.

    Users and other writers call any cloudcore that runs.

    Args:
        world: as for `SimulatedCloud`, and so are the others.
        root: a directory of its own.
        statuses: receives the changes of pods' statuses.
        first_version: see `Plan.first_version`.
    """

    def __init__(self, world: World, root: Path, statuses: StatusWatch, first_version: int = 0) -> None:
        super().__init__(world, root, statuses, first_version)
        self._lease = LeaseSettings()
        self._lags = world.seed % _LAGGING_SEEDS == 0
        statuses.behind = _LAGGING if self._lags else _BEHIND
        self.published = WatchOrder(world).published
        self._other = _SecondServer(self)
        self.second = SecondCloudcore(self, self._other)
        self._calls: list[_OpenCall] = []
        """Of users and other writers, without an answer so far."""

    @property
    def servers(self) -> list[EmbeddedServer]:
        """The API servers that run."""
        return [each for each in (self.server, self._other.server) if each is not None and each.is_running]

    @property
    def newest(self) -> Cluster:
        """The objects of the API server that knows the newest ones."""
        running = self.servers
        return max(running, key=lambda each: each.cluster.storage.version).cluster if running else self.cluster

    @property
    def serves_calls(self) -> bool:
        """Whether an API server runs."""
        return bool(self.servers)

    def close(self) -> None:
        """End everything, at the end of the run."""
        self.stop_second()
        super().close()

    def disagreements(self) -> Iterator[str]:
        """Yield also what an API server has in its books, and a fresh load of the database would not find."""
        yield from super().disagreements()
        versions = {each.cluster.storage.version for each in self.servers}
        if len(versions) > 1:
            if not self._lags:  # else one is behind whenever the other has written last
                yield f"the API servers are at versions {sorted(versions)}"
            return
        but = _UNTIL_FULL if self.database_server.was_short else frozenset[str]()
        for server in self.servers:
            if server.module is not None:
                loader = Loader(self.state_path, server.process.clock)
                for problem in differences_of_books(parts_of(server.module), loader.parts(), but):
                    yield f"{server.process.identity} has other books than a fresh load: {problem}"
                loader.close()

    def second_killed(self) -> None:
        """Note that the second cloudcore was killed, with its requests of users and other writers. The first one may
        not know yet what it has told nodes.
        """
        self._fail_calls(self._other.server)
        self._statuses.writes_lost()
        self.stale_until = self.world.now() + self._statuses.behind

    def lagging(self) -> bool:
        """Return whether the second cloudcore does not look for changes."""
        return self._lags

    def _any_server(self) -> EmbeddedServer | None:
        running = self.servers
        return self.world.random.choice(running) if running else None

    def _delete_node(self, node: str) -> None:
        super()._delete_node(node)
        self.endpoint.excused[node] = self.world.now() + self._statuses.behind

    def _node_deleted(self, node: str) -> None:
        super()._node_deleted(node)
        self.endpoint.excused[node] = self.world.now() + self._statuses.behind

    def _call(self, call: ApiCall, then: Callable[[ApiResult | BeehiveError], None]) -> None:
        """Make a call at any cloudcore; what it acknowledges must be in the database."""
        server = self._any_server()
        assert server is not None  # noqa: S101 - `serves_calls`

        opened = _OpenCall(server, then)
        self._calls.append(opened)

        def answered(answer: ApiResult | BeehiveError) -> None:
            if isinstance(answer, ApiResult) and answer.object is not None and call.verb != "delete":
                self._check_stored(server, answer.object)
            if opened in self._calls:
                self._calls.remove(opened)
                then(answer)

        self._ask_server(server.process, server.hive, call, answered)

    def _lose_calls(self) -> None:
        self._fail_calls(self.server)

    def _fail_calls(self, server: EmbeddedServer | None) -> None:
        """Answer the calls at an API server that has ended with an error. Those at the other one are still made."""
        lost = [each for each in self._calls if each.server is server]
        self._calls = [each for each in self._calls if each.server is not server]
        for each in lost:
            each.then(BeehiveError("cannot call an API server", "its process has ended"))

    def _check_stored(self, server: EmbeddedServer, obj: JsonObject) -> None:
        key, version = key_of(obj), int(version_of(obj))
        with closing(sqlite3.connect(self.state_path)) as database:
            row = database.execute(
                "SELECT revision FROM cluster_objects WHERE kind = ? AND namespace = ? AND name = ?", key
            ).fetchone()
        if row is None or row[0] < version:
            stored = "nothing" if row is None else f"version {row[0]}"
            text = f"{server.process.identity} has acknowledged version {version} of {key.kind} {key.name}"
            self.world.violated("what is acknowledged is stored", f"{text} ({uid_of(obj)[:8]}); there is {stored}")


class _OpenCall:
    """A call that is under way.

    Args:
        server: was asked.
        then: takes the answer.
    """

    def __init__(self, server: EmbeddedServer, then: Callable[[ApiResult | BeehiveError], None]) -> None:
        self.server = server
        self.then = then


class _SecondServer:
    """The API server of the second cloudcore (`SecondServer`)."""

    def __init__(self, cloud: PairedCloud) -> None:
        self._cloud = cloud
        self._starts = 0
        self._database: FailingDatabase | None = None
        self.server: EmbeddedServer | None = None
        """The one of its last start."""

    def join(self, process: Process, hive: Hive, turn: Turns) -> RemoteCluster:
        """Start another one."""
        self._starts += 1
        cloud = self._cloud
        self._database = FailingDatabase(
            cloud.database_server,
            cloud.database_url,
            f"second-{self._starts}",
            shared=not cloud.lagging(),
            turn=turn,
            room=SimulatedRoom(cloud.database_server),
        )
        self.server = cloud.make_server(process, hive, self._database)
        return self.server.remote

    def leave(self) -> None:
        """End it with its cloudcore."""
        if self.server is not None:
            self.server.end()
        if self._database is not None:
            self._database.close()
        self._cloud.second_killed()

"""Kills of one of several cloudcores that share a PostgreSQL, a cluster or both, and restarts of what they share, while
pods are written and report their statuses.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from statistics import median
from typing import Final, NamedTuple

import yaml

from beehive.clock import RealClock
from modules.apimachinery.kinds import JsonObject
from modules.processes.cloudcore.errors import ControlError
from tests.chaos.agents import VERSION, Agent
from tests.chaos.cloudcores import Cloudcore, Cloudcores, OneCluster
from tests.chaos.shared_servers import SharedServer, api_server, database_server
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.support.control_client import Apply, CommandItem, ControlClient, Delete, Get
from tests.support.directories import short_directory
from tests.support.postgresql import PrivatePostgresql

_TIMEOUT: Final = 120.0
_SLOTS: Final = 3
"""Names of pods of each node."""
_FREE: Final = 4
"""Pods that the scheduler places."""
_MOVED: Final = 5.0
"""Seconds within which the nodes of a cloudcore that was killed are with the others, when nothing else is down."""
_RESTARTS: Final = 0.4
"""Share of the kills with a restart of what the cloudcores share: half of them before, half meanwhile."""
_CHANGE: Final = 0.25
"""Seconds from one version of the pods to the next."""
_clock: Final = RealClock()
_never: Final = threading.Event()


class Shared(StrEnum):
    """What the cloudcores share."""

    POSTGRESQL = "on PostgreSQL"
    CLUSTER = "at one cluster"
    """Their state of the nodes is in the cluster, too."""
    BOTH = "at one cluster, with their state on PostgreSQL"


class Result(NamedTuple):
    """Result of a campaign whose invariants have held."""

    shared: Shared
    kills: int
    restarts: Counter[str]
    """How many times each server was restarted."""
    versions: int
    written: int
    deleted: int
    moved: list[float]
    """Seconds from a kill to the moment when another cloudcore had the node, for each node that was moved while
    nothing else was down."""
    moved_late: list[float]
    """The same while something else was down, or had just been started."""

    def check(self) -> None:
        """Assert that nodes were with another cloudcore in time."""
        late = [f"{time:.2f}" for time in self.moved if time > _MOVED]
        assert not late, f"nodes were with another cloudcore only after {', '.join(late)} s; at most {_MOVED:g} s"

    def __str__(self) -> str:
        restarts = "".join(f"{count} restarts of {name}, " for name, count in sorted(self.restarts.items()))
        return (
            f"three cloudcores {self.shared.value}: {self.kills} kills, {restarts}{self.versions} versions of the "
            f"pods, {self.written} written and {self.deleted} deleted: none lost, doubled or out of order, all "
            f"statuses there; nodes with the others after {_times(self.moved)}; while something else was down or had "
            f"just been started after {_times(self.moved_late)}"
        )


class Bed:
    """The cloudcores, the nodes, and what is written.

    Args:
        cores: the cloudcores.
        agents: the nodes.
        clients: returns the clients through which people write.
        servers: what the cloudcores share.
        draw: of what is deleted.
    """

    def __init__(
        self,
        cores: Cloudcores,
        agents: list[Agent],
        clients: Callable[[], list[ControlClient]],
        servers: Sequence[SharedServer],
        draw: random.Random,
    ) -> None:
        self.cores = cores
        self.agents = agents
        self.servers = servers
        self._clients = clients
        self._draw = draw
        self.versions = 0
        self.written = 0
        """Pods that were applied, in all versions."""
        self.deleted = 0
        self.wanted: dict[str, int] = {}
        """By the name of each pod that is to be there, the version that was written last."""
        self.may_replace = False
        """Whether the deletion of a pod that was gone at once may be lost with a cloudcore: NodeStates are written each
        five seconds, and what a node was sent since then nobody knows. The node finds out by its list of pods, or by a
        pod of the same name.
        """
        self.is_hurt = False
        """Whether nodes are without a cloudcore; many pods are deleted then."""
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._write_always, name="writer")

    def busiest(self) -> Cloudcore:
        """Return the cloudcore with the most nodes."""
        return max(self.cores.all, key=lambda each: len(each.nodes()))

    def is_whole(self) -> bool:
        """Whether all cloudcores serve nodes, and each node is with one of them."""
        return all(each.is_ready for each in self.cores.all) and self.has_all_nodes()

    def has_all_nodes(self) -> bool:
        """Whether each node is with a cloudcore."""
        return set().union(*(each.nodes() for each in self.cores.all)) == {agent.name for agent in self.agents}

    def restart(self, server: SharedServer, away: float) -> None:
        """Stop a server, start it some seconds later, and wait until all nodes are served again."""
        with server.away():
            _never.wait(away)
        self.wait_for_more()
        wait_until(self.has_all_nodes, f"all nodes are connected after a restart of {server.name}", _TIMEOUT)

    def load(self) -> None:
        """Begin to write."""
        self._thread.start()

    def wait_for_more(self) -> None:
        """Wait until all pods have been written again."""
        before = self.versions
        wait_until(lambda: self.versions > before or self._failure is not None, "another version is written", _TIMEOUT)

    def rest(self) -> None:
        """Stop to write, and wait until all has arrived."""
        self._stop.set()
        self._thread.join(_TIMEOUT)
        if self._failure is not None:
            raise self._failure
        try:
            wait_until(lambda: self._present() == sorted(self.wanted.items()), "the nodes have all", _TIMEOUT)
        except AssertionError as error:
            present, wanted = Counter(self._present()), Counter(self.wanted.items())
            raise AssertionError(f"missing: {wanted - present}; too many: {present - wanted}") from error
        wait_until(
            lambda: self._reported() == self.wanted, "the reported versions are those that were written", _TIMEOUT
        )

    def check(self) -> None:
        """Assert that nothing came out of order, came back or is there twice."""
        assert self.written > self.versions, f"{self.written} pods written in {self.versions} versions"
        names = Counter(name for name, _ in self._present())
        for agent in self.agents:
            for uid, seen in agent.knowledge.seen.items():
                where = f"{agent.name}: {seen.name} {uid}"
                assert seen.versions == sorted(set(seen.versions)), f"{where} came as {seen.versions}"
                assert seen.numbers == sorted(seen.numbers), f"{where} came as {seen.numbers}"
                assert not seen.came_back, f"{where} came after its deletion"
                assert self.may_replace or not seen.was_replaced, f"{where} was not deleted before its successor came"
            assert not list(agent.hive.dead_letters), f"{agent.name}: {list(agent.hive.dead_letters)}"
        assert names == Counter(dict.fromkeys(self.wanted, 1)), "each pod is on one node"

    def write(self) -> None:
        """Write the next version of all pods, and delete some."""
        number = self.versions + 1
        places = [(f"{agent.name}-p{slot}", agent.name) for agent in self.agents for slot in range(_SLOTS)]
        for name, node in [*places, *((f"free-p{slot}", "") for slot in range(_FREE))]:
            if name in self.wanted and self._draw.random() < (0.5 if self.is_hurt else 0.05):
                self._do(Delete("pod", name, grace=self._grace()), "NotFound", "not found")
                del self.wanted[name]
                self.deleted += 1
            elif name in self.wanted or self._is_gone(name):
                self._do(Apply([_pod(name, node, number)]))
                self.wanted[name] = number
                self.written += 1
        self.versions = number

    def _write_always(self) -> None:
        try:
            while not self._stop.wait(_CHANGE):
                self.write()
        except BaseException as error:  # noqa: BLE001 - raised again on the driver's thread
            self._failure = error

    def _grace(self) -> int | None:
        """Return the grace period of a deletion: 0 ends a pod immediately, also while its node has no cloudcore."""
        return None if self.may_replace else self._draw.choice((None, 0))

    def _is_gone(self, name: str) -> bool:
        """Whether the last pod of a name has ended; until then no other can be made."""
        (item,) = self._do(Get("pod", name), "NotFound", "not found")
        return item.object is None

    def _do(self, command: Apply | Delete | Get, *good: str) -> list[CommandItem]:
        """Carry out a command at a running cloudcore; at another one if there is no answer."""
        end = _clock.monotonic() + _TIMEOUT
        while True:
            why = "no cloudcore runs"
            for client in self._clients():
                try:
                    items = client.run(command)
                except ControlError as error:
                    why = str(error)
                    continue
                errors = [item.error for item in items if item.error and not any(each in item.error for each in good)]
                if not errors:
                    return items
                why = str(errors)
            assert _clock.monotonic() < end, f"{command}: {why}"
            _never.wait(0.1)

    def _present(self) -> list[tuple[str, int]]:
        return sorted(pod for agent in self.agents for pod in agent.knowledge.present())

    def _reported(self) -> dict[str, int]:
        pods = [item.object for item in self._do(Get("pod")) if item.object is not None]
        return {pod["metadata"]["name"]: int((pod.get("status") or {}).get("message") or 0) for pod in pods}


@contextmanager
def bed(nodes: int, draw: random.Random, shared: Shared = Shared.POSTGRESQL) -> Iterator[Bed]:
    """Start three cloudcores and nodes, each of which has its pods.

    Args:
        nodes: how many.
        draw: of the load.
        shared: what the cloudcores share.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(short_directory("s-"))
        options: list[str] = []
        servers: list[SharedServer] = []
        cluster: OneCluster | None = None
        if shared is not Shared.POSTGRESQL:
            cluster = stack.enter_context(OneCluster(directory))
            cluster.core.client.run(Apply([_definition_of_state()]))
            options += ["--kubeconfig", str(cluster.kubeconfig())]
            servers.append(api_server(cluster))
        if shared is not Shared.CLUSTER:
            database = stack.enter_context(PrivatePostgresql())
            options += ["--database", database.url]
            servers.append(database_server(database))
        else:
            options += ["--state", "cluster"]
        cores = stack.enter_context(Cloudcores(directory, 3, options))

        def clients() -> list[ControlClient]:
            if cluster is not None:
                return [cluster.core.client]
            running = [each.client for each in cores.all if each.runs]
            return draw.sample(running, len(running))

        agents = [
            stack.enter_context(Agent(f"n{number}", cores.urls(f"n{number}", number % 3), directory))
            for number in range(nodes)
        ]
        made = Bed(cores, agents, clients, servers, draw)
        made.may_replace = shared is Shared.CLUSTER
        try:
            wait_until(made.has_all_nodes, "all nodes are connected", _TIMEOUT)
            made.write()
            yield made
        except BaseException:
            print(cores.tail())  # noqa: T201 - a campaign's only witness
            raise


def run(seed: int, kills: int, nodes: int = 6, shared: Shared = Shared.POSTGRESQL) -> Result:
    """Kill one of three cloudcores many times, and restart what they share between kills and during some.

    Args:
        seed: of what is deleted, which cloudcore is killed when, and what is restarted when.
        kills: how many times.
        nodes: number of nodes.
        shared: what the cloudcores share.

    Raises:
        AssertionError: something was lost, doubled or out of order, or a node did not come back.
    """
    draw = random.Random(f"{seed} several")  # noqa: S311 - reproducible on purpose
    moved: list[float] = []
    moved_late: list[float] = []
    restarts: Counter[str] = Counter()
    with bed(nodes, random.Random(f"{seed} load"), shared) as whole:  # noqa: S311
        whole.load()
        try:
            for _ in range(kills):
                _never.wait(draw.uniform(0.0, 1.5))
                victim = whole.busiest() if draw.random() < 0.7 else draw.choice(whole.cores.all)
                server = draw.choice(whole.servers) if draw.random() < _RESTARTS else None
                meanwhile = server if draw.random() < 0.5 else None
                away = draw.choice((0.0, 0.5, 3.0)) * draw.random()
                if server is not None:
                    restarts[server.name] += 1
                    if meanwhile is None:
                        whole.restart(server, away)
                is_only = meanwhile is None and whole.is_whole()
                times = kill(whole, victim, meanwhile, away)
                (moved if is_only else moved_late).extend(times)
                _never.wait(draw.choice((0.0, 0.5, 2.0)) * draw.random())
                victim.start()
                whole.wait_for_more()
                if draw.random() < 0.8:
                    victim.wait()
            for each in whole.cores.all:
                each.wait()
        finally:
            whole.rest()
        whole.check()
        return Result(shared, kills, restarts, whole.versions, whole.written, whole.deleted, moved, moved_late)


def kill(whole: Bed, victim: Cloudcore, server: SharedServer | None = None, away: float = 0.0) -> list[float]:
    """Kill a cloudcore, and wait until all its nodes are with others; return how long each was without one.

    Args:
        whole: all.
        victim: the cloudcore.
        server: down when it is killed; None: nothing is.
        away: seconds that it stays down after the kill.
    """
    assert victim.runs, f"it has ended by itself\n{victim.tail()}"
    lost = victim.nodes()
    others = [each for each in whole.cores.all if each is not victim]
    with ExitStack() as outage:
        if server is not None:
            outage.enter_context(server.away())
        begin = _clock.monotonic()
        victim.kill()
        whole.is_hurt = bool(lost)
        _never.wait(away if server is not None else 0.0)
    times: list[float] = []
    while lost:
        found = lost & set().union(*(each.nodes() for each in others))
        times += [_clock.monotonic() - begin] * len(found)
        lost -= found
        assert _clock.monotonic() - begin < _TIMEOUT, f"these nodes are with no other cloudcore: {sorted(lost)}"
    whole.is_hurt = False
    return times


def _times(times: list[float]) -> str:
    if not times:
        return "-"
    return f"{median(times):.2f} s (median), {max(times):.2f} s (worst of {len(times)})"


def _pod(name: str, node: str, number: int) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {VERSION: str(number), "padding": "x" * 500}},
        "spec": {**({"nodeName": node} if node else {}), "containers": [{"name": "app", "image": "busybox:1.36"}]},
    }


def _definition_of_state() -> JsonObject:
    """The CustomResourceDefinition of NodeState, as people apply it."""
    documents = yaml.safe_load_all((REPOSITORY / "deploy" / "cloudcore.yaml").read_text())
    return next(each for each in documents if each["kind"] == "CustomResourceDefinition")

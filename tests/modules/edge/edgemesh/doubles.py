"""A data plane that keeps what it is given."""

from collections.abc import Callable, Iterable

from modules.edge.edgemesh.nft.watch import RulesWatch
from modules.edge.edgemesh.plane import PlaneError, Tables
from modules.edge.edgemesh.tables import Address, PortTable


class Plane:
    """A `DataPlane` that keeps the tables."""

    kind = "fake"

    def __init__(self) -> None:
        self.tables: list[dict[str, list[str]]] = []
        self.refusals: list[str] = []
        self.times: list[float] = []
        self.now: Callable[[], float] = lambda: 0.0
        self.restored = self.cleaned = self.looks = self.closed = 0
        self.whole = True
        self.watching: RulesWatch | None = None
        self.during: Callable[[], object] = lambda: None
        """Called during each change."""
        self.during_clean: Callable[[], object] = lambda: None

    def prepare(self) -> None:
        """Work, unless told otherwise."""
        if self.kind in self.refusals:
            raise PlaneError("not here")

    def apply(self, tables: Tables, pods: Iterable[str]) -> None:
        """Keep the addresses of endpoints by Service."""
        self.times.append(self.now())
        self.during()
        if self.refusals:
            raise PlaneError(self.refusals.pop())
        found = {table.service: [address for address, _ in table.inside.endpoints] for table in tables.values()}
        self.tables.append({**found, "pods": sorted(pods)})

    def reach(self, table: PortTable) -> Address:
        """Elsewhere."""
        return "127.96.0.1", table.port + 20_000

    def clean(self) -> None:
        """Count, or fail."""
        self.cleaned += 1
        self.during_clean()

    def watch(self) -> RulesWatch | None:
        """Return the test's watch."""
        return self.watching

    def restore(self) -> None:
        """Count."""
        self.restored += 1
        self.whole = True

    def is_whole(self) -> bool:
        """Return what the test says."""
        self.looks += 1
        if self.kind in self.refusals:
            raise PlaneError("it cannot be asked")
        return self.whole

    def close(self) -> None:
        """Count."""
        self.closed += 1

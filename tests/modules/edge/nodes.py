"""A node without a cloud, whose modules can be started again on its files."""

from beehive import Hive
from tests.support.patience import PATIENCE


class RestartedNode:
    """A node between `start` and `stop`."""

    hive: Hive | None = None

    @property
    def running(self) -> Hive:
        """Its modules, which run."""
        assert self.hive is not None
        return self.hive

    def stop(self) -> None:
        """Stop them."""
        if self.hive is not None:
            self.hive.stop(PATIENCE)
            self.hive.clock.close()
            self.hive = None

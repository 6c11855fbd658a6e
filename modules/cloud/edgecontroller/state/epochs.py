"""The epochs of a cluster's versions: after a restore of etcd, versions are given a second time."""

from collections.abc import Callable

from beehive.whole_numbers import whole_number
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.object_sync import Epoch


class Epochs:
    """The number of times that versions went back, also while no cloudcore ran, counted in the database.

    While cloudcore runs, reflectors notice it. At the start, the list of pods has a lower version than one of a pod
    that was seen before, in a list or in an acknowledgement: lists are asked of etcd, so that their versions only
    increase otherwise. Only pods count, as an API server may keep other resources in another etcd. An embedded API
    server has one epoch, unless its database was restored without this one: both are in one file.

    Args:
        database: keeps the epoch, for all cloudcores that share it.
        ended: called when an epoch has ended, in the transaction.
    """

    def __init__(self, database: Database, ended: Callable[[], None]) -> None:
        self._database = database
        self._ended = ended
        self._present = Epoch()
        self._elsewhere = 0
        """The number of the newest epoch that was read in the state of a node, which another cloudcore has written."""
        self._counts = False
        """Whether a list was seen."""

    @property
    def number(self) -> int:
        """The number of the present epoch."""
        return self._present.number

    @property
    def is_over(self) -> bool:
        """Whether another cloudcore that shares the database, or the state in the cluster, has begun a later epoch. For
        a transaction.
        """
        return self._elsewhere > self.number or (self._database.shared and self._database.epoch().number > self.number)

    def load(self) -> None:
        """Go on with the epoch in the database, before the first list is asked for."""
        self._present = self._database.epoch()

    def record(self, version: int) -> None:
        """Note the version of a pod that a node has acknowledged."""
        if self._counts and version > self._present.newest:
            self._put(Epoch(self.number, version))

    def listed(self, version: str) -> bool:
        """Take the version of a complete list of pods, and return whether it begins another epoch. Versions that are
        no numbers are opaque.
        """
        self._counts = True
        number = whole_number(version)
        if number is None:
            number = self._present.newest
        if number >= self._present.newest:
            self.record(number)
            return False
        self._begin(number)
        return True

    def read_elsewhere(self, number: int) -> None:
        """Note the epoch of a node's state in the cluster: the cloudcore that has written it has seen the restores that
        led to this epoch.
        """
        self._elsewhere = max(self._elsewhere, number)

    def went_back(self) -> None:
        """Begin another epoch: a reflector has seen versions go back."""
        self._begin(0)

    def resume(self, stored: Epoch) -> None:
        """Go on with an epoch that is kept elsewhere, after the first list of pods.

        Args:
            stored: with the newest version of a pod that a node has acknowledged in it.
        """
        listed = self._present.newest
        if stored.number < self.number:
            return
        is_over = listed < stored.newest
        self._put(Epoch(stored.number + is_over, listed))
        if is_over:
            self._ended()

    def _begin(self, newest: int) -> None:
        """Begin the next epoch, or join another cloudcore's."""
        elsewhere = max(self._elsewhere, self._database.epoch().number)
        self._put(Epoch(max(elsewhere, self.number + 1), newest))
        self._ended()

    def _put(self, epoch: Epoch) -> None:
        self._present = epoch
        self._database.put_epoch(epoch)

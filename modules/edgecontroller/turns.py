"""A turn of edgecontroller: what others have changed is read, messages are handled, the changes are made durable, and
only then does anybody hear of them.

So no answer, and no message to a node, ever speaks of what a crash could undo; and all the messages of a turn share one
wait for the disk.
"""

from collections.abc import Callable, Sequence

from beehive.causes import Cause, here, resumed
from modules.edgecontroller.database.database import Database, Pulled
from modules.edgecontroller.database.errors import DatabaseError
from modules.edgecontroller.store import ObjectEvent, ObjectStore


class Turns:
    """See the module's docstring.

    Args:
        store: the objects in memory.
        database: where they are kept.
        changed: told of each change of an object, of this cloudcore or another, in order.
        claimed: told of the nodes that have connected to other cloudcores.
        undone: told of the changes that are so no more, latest first, and of the nodes whose syncs are not.
    """

    def __init__(
        self,
        store: ObjectStore,
        database: Database,
        changed: Callable[[ObjectEvent], None],
        claimed: Callable[[Sequence[tuple[str, str]]], None],
        undone: Callable[[list[ObjectEvent], set[str]], None],
    ) -> None:
        self._store = store
        self._database = database
        self._changed = changed
        self._claimed = claimed
        self._undone = undone
        self.adopting = False
        """Whether the changes that are told of are another cloudcore's."""
        self._later: list[tuple[Cause, Callable[[], None]]] = []

    def begin(self) -> None:
        """Begins a turn where none has begun.

        Raises:
            DatabaseError: see `Database.begin`.
        """
        if not self._database.in_turn:
            self._adopt(self._database.begin())

    def attempt(self, work: Callable[[], None]) -> None:
        """Does the work of one message, in a turn. When it raises, nothing of it remains, in the store, in what is to
        be written or in what is to be done later; the turn's other messages are none the worse for it.

        Raises:
            DatabaseError: the turn itself is over.
            Exception: the work's.
        """
        self.begin()
        self._database.keep()
        self._store.save()
        acts = len(self._later)
        try:
            work()
            self.note_changes()
        except DatabaseError:
            raise
        except Exception:
            del self._later[acts:]
            self._undone(self._store.roll_back(), self._database.drop())
            raise

    def note_changes(self) -> None:
        """Takes down what was changed since the last call."""
        for event in self._store.take_events():
            self._database.put(event)
            self._changed(event)

    def later(self, act: Callable[[], None]) -> None:
        """Acts when all that was changed is durable, in the course of what is handled now."""
        self._later.append((here(), act))

    def commit(self) -> None:
        """Ends the turn, if one has begun, and does what was to be done later.

        Raises:
            DatabaseError: the changes are not durable, and nobody hears of them.
        """
        if self._database.in_turn:
            self.note_changes()
            self._database.commit(self._store.version)
            self._store.save()
        later, self._later = self._later, []
        for cause, act in later:
            with resumed(cause):
                act()

    def abandon(self) -> None:
        """Gives up a turn that has begun."""
        self._later.clear()
        self._store.take_events()
        self._store.save()
        self._database.abandon()

    def _adopt(self, pulled: Pulled) -> None:
        self._claimed(pulled.sessions)
        self._store.adopt(pulled.objects, pulled.version, complete=pulled.complete)
        self.adopting = True
        for event in self._store.take_events():
            self._changed(event)
        self.adopting = False

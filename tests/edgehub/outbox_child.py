"""The process that `test_outbox_crash` kills: edgehub without a cloud, which is given messages without end.

The id of each message that the outbox has on the disk is written to standard output, unbuffered, one a line.
"""

import itertools
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from beehive import Group, Hive, Message, ModuleName, Operation, Threads, decode
from edgehub import EdgeHubSettings, install
from edgehub.outbox.sqlite import SqliteOutbox
from edgehub.outbox.store import StoredMessage
from edgehub.settings import Limit, Limits


class Told(SqliteOutbox):
    """Says what it has written."""

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        kept = list(put)
        super().change(kept, gone)
        for one in kept:
            os.write(1, f"{decode(one.frame).id}\n".encode())


def main(path: str) -> None:
    """Send until killed."""
    hive = Hive(Threads())
    room = Limit(10**9, 10**9)
    url = "ws://127.0.0.1:1/p/n/events"
    settings = EdgeHubSettings(url=url, node="n", limits=Limits(uploads=room))
    install(hive, settings, open_outbox=lambda: Told(Path(path)))
    hive.start()
    for number in itertools.count():
        message = Message.new(
            hive.clock, source="test", group=Group.USER, resource="a/b/c", operation=Operation.UPLOAD, content=number
        )
        hive.send(ModuleName.EDGEHUB, message)


if __name__ == "__main__":
    main(sys.argv[1])

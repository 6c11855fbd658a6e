"""The process that test_crash kills: a module on a real file, and a hub that prints each acknowledgement.

Every pod it is acknowledged for is written to standard output, unbuffered, one name a line.
"""

import itertools
import os
import sys

from beehive import Group, Hive, Message, Module, ModuleName, Operation, Threads, handles
from metamanager.module import MetaManager, MetaSettings


class Hub(Module):
    """Writes the names of what is acknowledged."""

    name = ModuleName.EDGEHUB
    group = Group.HUB

    @handles()
    def acknowledged(self, message: Message) -> None:
        """One system call for each, so that a kill leaves whole lines."""
        os.write(1, f"{message.route.resource}\n".encode())


class Edged(Module):
    """Takes pods and does nothing."""

    name = ModuleName.EDGED
    group = Group.EDGED

    @handles()
    def take(self, message: Message) -> None:
        """Nothing."""


def main(path: str) -> None:
    """Send pods until killed."""
    hive = Hive(Threads())
    for module, args in ((Hub, ()), (Edged, ()), (MetaManager, (MetaSettings(path),))):
        hive.add(module, *args)
    hive.start()
    for number in itertools.count():
        metadata = {"uid": str(number), "resourceVersion": str(number), "name": f"p{number}"}
        hive.send(ModuleName.METAMANAGER, Message.new(
            hive.clock, source=ModuleName.EDGECONTROLLER, group=Group.RESOURCE, operation=Operation.INSERT,
            resource=f"default/pod/p{number}", content={"metadata": metadata, "spec": {"x": "y" * 500}},
        ))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])

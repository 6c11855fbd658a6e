"""Runs the threads of a scenario one at a time, in orders that are chosen and not left to chance: this finds races.

    def scenario(threads: Interleaving) -> None:
        inbox = Inbox(Threads(threads.clock), capacity=1)
        threads.run(lambda: inbox.put("a"), lambda: taken.append(inbox.get()))
        assert taken == ["a"]

    explore(scenario, inbox_module)

A thread can be interrupted before each access to an attribute, item or function in the modules that are watched, and at
each lock, condition, event, queue, future and poll(2). `explore` runs the scenario with no interruption, with each
single one, and with several that are drawn from a seed (see "Finding and Reproducing Heisenbugs in Concurrent
Programs", OSDI 2008: most races need one or two). The same arguments give the same orders on every machine.
"""

from tests.support.interleaving.exploring import SEEDS, explore
from tests.support.interleaving.scheduling import DeadlockError, Interleaving, StalledError

__all__ = ["SEEDS", "DeadlockError", "Interleaving", "StalledError", "explore"]

"""The rules of `upgrade.updater` for who starts a node and who puts it back, in every order of their steps.

Launchers, an updater and the nodes that they become or start are small programs; each step is one change of what they
share. All orders are walked, with kills before any step and an end of the probation at any time. Without the lock
`starting` the walk finds the order that left a bad version on a database of its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pytest

from modules.processes.edgecore.upgrade.updater.journal import UNFINISHED, Phase

OLD, NEW = 3, 4
"""A version, and the newest schema that it knows."""


class Actor(NamedTuple):
    """A launcher, which becomes a node, or the updater."""

    step: str
    version: int = 0
    """What a launcher has read from the link."""


@dataclass(frozen=True)
class World:
    """What the processes share, and how far each of them is."""

    actors: tuple[Actor, ...] = ()
    phase: Phase = Phase.PROBATION
    link: int = NEW
    schema: int = OLD
    has_copy: bool = True
    lock: int = -1
    """The number of the actor that has the updater's lock; -1: none has."""
    starting: int = -1
    node: int = -1
    """The actor that is the node and has its lock."""
    starts: int = 2
    """Launchers that may still be started: by a service manager, or by a person."""
    kills: int = 1


def changed(world: World, number: int, step: str, **fields: object) -> World:
    """Return the world after a step of an actor."""
    after = world.actors[number]._replace(step=step)
    actors = (*world.actors[:number], after, *world.actors[number + 1 :])
    return replace(world, actors=actors, **fields)  # type: ignore[arg-type]


def ended(world: World, number: int) -> World:
    """Return the world without an actor: the kernel releases what it has."""
    fields = {name: -1 for name in ("lock", "starting", "node") if getattr(world, name) == number}
    return changed(world, number, "ended", **fields)


def put_back(world: World) -> dict[str, object]:
    """Return what going back changes."""
    restores = world.has_copy and world.schema != OLD
    return {"link": OLD, "schema": OLD if restores else world.schema, "has_copy": world.has_copy and not restores}


def launcher(world: World, number: int, *, locks: bool) -> Iterator[World]:
    """Yield what a launcher, or the node that it has become, may do next."""
    actor = world.actors[number]
    match actor.step:
        case "begin" if not locks:
            yield changed(world, number, "look")
        case "begin" if world.starting in (-1, number):
            yield changed(world, number, "look", starting=number)
        case "look" if world.lock == -1 and world.phase in UNFINISHED and world.node == -1:
            yield changed(world, number, "recover", lock=number)
        case "look":
            yield changed(world, number, "read")
        case "recover":
            fields = put_back(world) if world.phase is Phase.ROLLING_BACK else {}
            done = changed(world, number, "read", lock=-1, **fields)
            yield replace(done, actors=(*done.actors, Actor("starting updater")))
        case "read":
            done = changed(world, number, "run")
            read = Actor("run", world.link)
            yield replace(done, actors=(*done.actors[:number], read, *done.actors[number + 1 :]))
        case "run" if world.node != -1:
            yield ended(world, number)
        case "run":
            yield changed(world, number, "migrate", node=number)
        case "migrate" if world.schema > actor.version:
            yield ended(world, number)
        case "migrate":
            yield changed(world, number, "release", schema=actor.version)
        case "release":
            yield changed(world, number, "serve", starting=-1 if world.starting == number else world.starting)


def updater(world: World, number: int, *, locks: bool) -> Iterator[World]:
    """Yield what the updater may do next, whose probation may end at any time."""
    step = world.actors[number].step
    is_starting = step.startswith("starting")
    match step.removeprefix("starting "):
        case "updater" if world.lock == -1:
            if world.phase is Phase.PROBATION:
                yield changed(world, number, "watch", lock=number)
            elif world.phase is Phase.ROLLING_BACK:
                is_back = is_starting and world.link == OLD
                yield changed(world, number, "finish" if is_back else "stop", lock=number)
            else:
                yield ended(world, number)
        case "watch":
            yield changed(world, number, "stop", phase=Phase.ROLLING_BACK)
        case "stop":
            if locks and world.starting not in (-1, number):
                yield ended(world, world.starting)
            elif world.node != -1:
                yield ended(world, world.node)
            else:
                yield changed(world, number, "put back", starting=number if locks else -1)
        case "put back":
            yield changed(world, number, "start", **put_back(world))
        case "start":
            done = changed(world, number, "finish", starting=-1 if locks else world.starting)
            yield replace(done, actors=(*done.actors, Actor("begin")))
        case "finish":
            yield ended(replace(world, phase=Phase.ROLLED_BACK), number)


def following(world: World, *, locks: bool) -> Iterator[World]:
    """Yield every world that may come next."""
    for number, actor in enumerate(world.actors):
        if actor.step == "ended":
            continue
        program: Callable[..., Iterator[World]] = updater if is_updater(actor) else launcher
        yield from program(world, number, locks=locks)
        if world.kills:
            yield replace(ended(world, number), kills=world.kills - 1)
    if world.starts:
        yield replace(world, starts=world.starts - 1, actors=(*world.actors, Actor("begin")))


def is_updater(actor: Actor) -> bool:
    """Return whether it is the updater."""
    return actor.step in ("updater", "starting updater", "watch", "stop", "put back", "start", "finish")


def normal(world: World) -> World:
    """Return the world without the actors that have ended, which nobody looks at."""
    alive = [number for number, actor in enumerate(world.actors) if actor.step != "ended"]
    numbers = {number: place for place, number in enumerate(alive)} | {-1: -1}
    held = {name: numbers[getattr(world, name)] for name in ("lock", "starting", "node")}
    return replace(world, actors=tuple(world.actors[number] for number in alive), **held)  # type: ignore[arg-type]


def fault(world: World) -> str:
    """Return what must not be when the upgrade has gone back; empty if nothing is."""
    if world.phase is not Phase.ROLLED_BACK:
        return ""
    if world.schema != OLD:
        return "the database is the new version's"
    if world.node != -1 and world.actors[world.node].version != OLD:
        return "the new version runs"
    return ""


def walked(*, locks: bool, kills: int) -> tuple[int, str]:
    """Return how many worlds there are, and the first fault."""
    begin = World((Actor("serve", NEW), Actor("updater")), node=0, schema=NEW, kills=kills)
    seen, left = {begin}, [begin]
    while left:
        for after in following(left.pop(), locks=locks):
            world = normal(after)
            if found := fault(world):
                return len(seen), found
            if world not in seen:
                seen.add(world)
                left.append(world)
    return len(seen), ""


MOST_KILLS: Final = 2


@pytest.mark.parametrize("kills", range(MOST_KILLS + 1))
def test_in_any_order_the_way_back_ends_with_the_earlier_version_on_its_database(kills: int) -> None:
    worlds, found = walked(locks=True, kills=kills)
    assert not found
    assert worlds > 100 * 3**kills, "hardly any orders were walked"


def test_without_the_lock_an_order_is_found_that_does_not() -> None:
    assert walked(locks=False, kills=1)[1]

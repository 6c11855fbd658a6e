"""Ids: UUIDs that nobody can predict, each handed out once, whatever threads and forks there are."""

import os
import random
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from beehive import RealClock
from beehive import clock as clock_module
from beehive.clock import unpredictable_id
from beehive.simulation import Simulation


def test_ids_are_uuids_of_version_4() -> None:
    """In lower case, with hyphens; several batches of them."""
    for text in (unpredictable_id() for _ in range(1000)):
        assert str(uuid.UUID(text)) == text
        assert (uuid.UUID(text).version, uuid.UUID(text).variant) == (4, uuid.RFC_4122)


def test_every_random_bit_varies() -> None:
    """All 122 are sometimes 0 and sometimes 1."""
    drawn = [uuid.UUID(unpredictable_id()).int for _ in range(2000)]
    always, ever = drawn[0], 0
    for bits in drawn:
        always, ever = always & bits, ever | bits
    assert (ever & ~always).bit_count() == 122


def test_the_real_clock_s_ids_are_the_operating_system_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """No state of the process tells the next one: Mersenne Twister, as ids once were drawn from, could be solved."""
    monkeypatch.setattr(os, "urandom", lambda count: b"\xab" * count)
    clock_module._ready.clear()
    clock = RealClock()
    assert clock.new_id() == "abababab-abab-4bab-abab-abababababab"
    assert isinstance(clock.random, random.SystemRandom)
    clock_module._ready.clear()


def test_threads_never_share_an_id() -> None:
    """None is lost to a race for the end of a batch either, which would show as one handed out twice."""
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: [unpredictable_id() for _ in range(2000)], range(16)))
    assert len({one for some in drawn for one in some}) == 32_000


def test_a_forked_child_does_not_repeat_its_parent_s() -> None:
    """What was drawn ahead belongs to the parent."""
    unpredictable_id()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, "".join(unpredictable_id() for _ in range(300)).encode())
        os._exit(0)
    ours = {unpredictable_id() for _ in range(300)}
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    theirs = {text[at : at + 36] for at in range(0, len(text), 36)}
    assert len(theirs) == 300
    assert not ours & theirs


def test_a_simulation_s_ids_are_its_seed_s() -> None:
    """So that a run can be repeated."""
    first, again, other = (Simulation(seed).clock.new_id() for seed in (1, 1, 2))
    assert first == again != other

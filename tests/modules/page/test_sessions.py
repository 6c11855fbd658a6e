"""Tokens and keys of the page, in virtual time."""

from beehive.simulation import Simulation
from modules.page.sessions import IDLE_SECONDS, LONGEST_SECONDS, MOST_SESSIONS, TOKEN_SECONDS, Sessions


def test_a_token_is_exchanged_once() -> None:
    sessions = Sessions(Simulation(1).clock)
    token = sessions.new_token()
    key = sessions.exchange(token)
    assert len(token) == 43
    assert key not in ("", token)
    assert sessions.is_valid(key)
    assert sessions.exchange(token) == ""
    assert not sessions.is_valid(token)
    assert not sessions.is_valid("")
    assert sessions.exchange("") == ""


def test_a_token_ends_after_a_minute() -> None:
    world = Simulation(1)
    sessions = Sessions(world.clock)
    early, late = sessions.new_token(), sessions.new_token()
    world.run_for(TOKEN_SECONDS - 0.1)
    assert sessions.exchange(early)
    world.run_for(0.2)
    assert sessions.exchange(late) == ""


def test_a_session_ends_when_it_is_not_used_and_in_any_case() -> None:
    world = Simulation(1)
    sessions = Sessions(world.clock)
    unused, used = (sessions.exchange(sessions.new_token()) for _ in range(2))
    for _ in range(int(LONGEST_SECONDS // (IDLE_SECONDS - 1.0))):
        world.run_for(IDLE_SECONDS - 1.0)
        assert sessions.is_valid(used)
    assert not sessions.is_valid(unused)
    world.run_for(IDLE_SECONDS - 1.0)
    assert not sessions.is_valid(used)


def test_a_look_at_a_session_is_no_use_of_it() -> None:
    """An open shell without input asks whether its session has ended."""
    world = Simulation(1)
    sessions = Sessions(world.clock)
    key = sessions.begin("credentials", "carol")
    for _ in range(3):
        world.run_for(IDLE_SECONDS / 4)
        assert sessions.is_valid(key, is_use=False)
        assert sessions.credentials(key, is_use=False) == "credentials"
    world.run_for(IDLE_SECONDS / 4)
    assert not sessions.is_valid(key, is_use=False)


def test_sessions_are_bounded_and_can_be_ended() -> None:
    sessions = Sessions(Simulation(1).clock)
    keys = [sessions.exchange(sessions.new_token()) for _ in range(MOST_SESSIONS)]
    assert all(keys)
    sessions.end(keys[1])
    keys += [sessions.exchange(sessions.new_token()) for _ in range(2)]
    assert [sessions.is_valid(key) for key in keys] == [False] * 2 + [True] * MOST_SESSIONS


def test_a_few_users_keep_no_other_user_out_and_not_the_owner() -> None:
    sessions = Sessions(Simulation(1).clock)
    many = [sessions.begin("", f"robot-{number % 16}") for number in range(MOST_SESSIONS)]
    mine = [sessions.begin("", "carol"), sessions.exchange(sessions.new_token())]
    assert [sessions.is_valid(key) for key in mine] == [True] * 2
    assert sum(map(sessions.is_valid, many)) == MOST_SESSIONS - 2


def test_a_user_keeps_eight_sessions_and_then_loses_the_oldest() -> None:
    """No other one, whatever their number; and none of another user."""
    sessions = Sessions(Simulation(1).clock)
    other = sessions.begin("", "carol")
    keys = [sessions.begin("", "bob") for _ in range(8)]
    assert all(map(sessions.is_valid, keys))
    keys += [sessions.begin("", "bob") for _ in range(2)]
    assert [sessions.is_valid(key) for key in keys] == [False] * 2 + [True] * 8
    assert sessions.is_valid(other)


def test_when_there_are_too_many_the_user_with_the_most_loses_the_oldest() -> None:
    """Not who came first of all."""
    sessions = Sessions(Simulation(1).clock)
    first = sessions.begin("", "carol")
    robots = [sessions.begin("", f"robot-{number % 9}") for number in range(MOST_SESSIONS - 1)]
    assert sessions.is_valid(sessions.begin("", "dave"))
    assert sessions.is_valid(first)
    assert [sessions.is_valid(key) for key in robots] == [False] + [True] * (MOST_SESSIONS - 2)


def test_sessions_that_have_ended_take_no_place_and_no_part_in_the_choice() -> None:
    """Of a user who has had many, or of all together."""
    world = Simulation(1)
    sessions = Sessions(world.clock)
    for number in range(MOST_SESSIONS):
        assert sessions.begin("credentials", f"user-{number % 9}")
    world.run_for(IDLE_SECONDS + 1.0)
    keys = [sessions.begin("credentials", user) for user in ("carol", "user-1", "carol")]
    assert [sessions.is_valid(key) for key in keys] == [True] * 3
    for _ in range(MOST_SESSIONS):
        assert sessions.exchange(sessions.new_token())
        sessions.new_token()
    world.run_for(IDLE_SECONDS + 1.0)
    assert sessions.exchange(sessions.new_token())
    assert (len(sessions._tokens), len(sessions._keys)) == (0, 1), "nor do they take memory"


def test_of_the_sessions_of_a_user_with_ended_ones_the_others_stay() -> None:
    """The oldest one is in use, and the later ones are not."""
    world = Simulation(1)
    sessions = Sessions(world.clock)
    first = sessions.begin("credentials", "carol")
    others = [sessions.begin("credentials", f"user-{number}") for number in range(MOST_SESSIONS - 8)]
    for _ in range(7):
        sessions.begin("credentials", "carol")
    world.run_for(IDLE_SECONDS / 2)
    assert sessions.is_valid(first)
    world.run_for(IDLE_SECONDS / 2 + 1.0)
    last = sessions.begin("credentials", "carol")
    assert [sessions.is_valid(key) for key in (first, last)] == [True] * 2
    assert not any(map(sessions.is_valid, others))

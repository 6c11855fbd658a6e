"""The Leases of several cloudcores at one API server: liveness and duties."""

import logging
from collections.abc import Callable

import pytest

from modules.apimachinery.kinds import key_of
from modules.apimachinery.types.times import format_micro_time, seconds
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.coordination.known_cloudcores import Duty
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.coordination.leases import call
from tests.modules.cloud.coordination.clouds import FORBIDDEN, Cloud, Clouds

CONFIGURED = LeaseSettings(name="cloud")
CONFLICT = ApiResult(refusal={"code": 409, "message": "it has changed"})
KEYS = [f"node/n{number}" for number in range(60)]


def owners(clouds: Clouds, key: str) -> list[str]:
    """The cloudcores that would do a duty."""
    return [each.name for each in clouds.all if not each.is_dead and each.keeper.owns(key)]


def spec_of(clouds: Clouds, name: str) -> dict[str, object]:
    """What a Lease says."""
    (found,) = [lease for lease in clouds.leases() if lease["metadata"]["name"] == name]
    spec: dict[str, object] = found["spec"]
    return spec


def release(cloud: Cloud) -> list[str]:
    """Let a process end; return what its end adds "released" to."""
    ends: list[str] = []
    cloud.keeper.release(lambda: ends.append("released"))
    return ends


@pytest.fixture
def clouds() -> Clouds:
    return Clouds()


@pytest.fixture
def one(clouds: Clouds) -> Cloud:
    return clouds.start("a")


def test_a_single_cloudcore_does_everything_immediately_and_writes_every_ten_seconds(
    one: Cloud, clouds: Clouds
) -> None:
    assert all(one.keeper.owns(key) for key in KEYS)
    clouds.run_for(600.0)
    assert set(one.requests) == {"create", "update"}
    assert 50 <= len(one.requests) <= 61
    assert one.changes == 0
    now, spec = clouds.clock.now(), spec_of(clouds, "a")
    assert spec["holderIdentity"] == "a"
    assert format_micro_time(seconds(now - 12.0)) <= str(spec["renewTime"]) <= format_micro_time(seconds(now))


def test_it_knows_where_the_routers_of_the_others_are(clouds: Clouds) -> None:
    """The living ones', from their first renewal with an address, and it announces them."""
    one, other = clouds.start("a"), clouds.start("b")
    clouds.run_for(15.0)
    assert one.keeper.routers == {}
    other.known.own_router, changes = "10.0.0.2:9443", one.changes
    clouds.run_for(15.0)
    assert (one.keeper.routers, other.keeper.routers) == ({"b": "10.0.0.2:9443"}, {})
    assert one.changes == changes + 1
    clouds.kill(other)
    clouds.run_for(31.0)
    assert one.keeper.routers == {}


def test_it_knows_what_the_others_do(clouds: Clouds) -> None:
    one, other = clouds.start("a"), clouds.start("b")
    other.known.own_duties = frozenset({Duty.JOBS})
    clouds.run_for(15.0)
    assert (one.keeper.duties, other.keeper.duties) == ({"b": {Duty.JOBS}}, {"a": set(Duty)})
    changes = one.changes
    clouds.kill(other)
    clouds.run_for(31.0)
    assert (one.keeper.duties, one.changes) == ({}, changes + 1)


def test_three_divide_all_duties_and_do_none_twice(clouds: Clouds) -> None:
    for name in "abc":
        clouds.start(name)
    clouds.run_for(15.0)
    assert all(each.keeper.alive == ("a", "b", "c") for each in clouds.all)
    assert {tuple(owners(clouds, key)) for key in KEYS} == {("a",), ("b",), ("c",)}


def test_the_duties_of_a_killed_cloudcore_are_with_the_others_when_its_lease_expires(clouds: Clouds) -> None:
    """The duties of other cloudcores stay, also when a machine's clock is set."""
    first, second, third = (clouds.start(name) for name in "abc")
    clouds.run_for(15.0)
    clouds.clock.jump_wall(3600.0)
    before = {key: owners(clouds, key) for key in KEYS}
    clouds.kill(second)
    clouds.run_for(15.0)
    assert "b" in first.keeper.alive, "it may be slow"
    clouds.run_for(16.0)
    assert (first.keeper.alive, third.keeper.alive) == (("a", "c"), ("a", "c"))
    for key in KEYS:
        assert len(owners(clouds, key)) == 1
        assert before[key] == ["b"] or owners(clouds, key) == before[key]


def test_the_duties_of_a_stopped_cloudcore_are_with_the_others_immediately(clouds: Clouds) -> None:
    first, second = (clouds.start(name) for name in "ab")
    clouds.run_for(15.0)
    assert release(second) == ["released"]
    assert first.keeper.alive == second.keeper.alive == ("a",)
    assert all(owners(clouds, key) == ["a"] for key in KEYS)
    clouds.run_for(60.0)
    assert [lease["metadata"]["name"] for lease in clouds.leases()] == ["a"]


def test_a_cloudcore_that_starts_after_a_crash_waits_for_no_dead_one(clouds: Clouds) -> None:
    """Its own Lease of before the crash is still there, and would count for half a minute."""
    clouds.kill(clouds.start("before"))
    after = clouds.start("after")
    assert all(after.keeper.owns(key) for key in KEYS)
    clouds.run_for(60.0)
    assert after.changes == 0


def test_a_late_cloudcore_is_known_immediately_and_knows_the_others_soon(clouds: Clouds) -> None:
    first = clouds.start("a")
    clouds.run_for(100.0)
    late = clouds.start("b")
    assert first.keeper.alive == ("a", "b")
    clouds.run_for(12.0)
    assert late.keeper.alive == ("a", "b")


def test_wall_clocks_do_not_count(clouds: Clouds) -> None:
    """An hour ahead or behind, by NTP or by hand."""
    first, second = (clouds.start(name) for name in "ab")
    for jump in (3600.0, -7200.0):
        clouds.clock.jump_wall(jump)
        clouds.run_for(40.0)
        assert first.keeper.alive == second.keeper.alive == ("a", "b")


def test_without_the_api_server_each_does_all_duties_and_afterwards_they_are_divided_again(clouds: Clouds) -> None:
    """Doing one twice harms nothing; not doing it might."""
    first, second = (clouds.start(name) for name in "ab")
    clouds.run_for(15.0)
    first.is_away = second.is_away = True
    clouds.run_for(45.0)
    assert all(owners(clouds, key) == ["a", "b"] for key in KEYS)
    first.is_away = second.is_away = False
    clouds.run_for(45.0)
    assert all(len(owners(clouds, key)) == 1 for key in KEYS)


def test_a_renewal_whose_answer_was_lost_is_followed_by_the_next(one: Cloud, clouds: Clouds) -> None:
    """The stored Lease is newer than the known one, so the first write is refused."""
    one.loses_answers = True
    clouds.run_for(20.0)
    one.loses_answers = False
    before = spec_of(clouds, "a")["renewTime"]
    clouds.run_for(20.0)
    assert spec_of(clouds, "a")["renewTime"] != before
    assert spec_of(clouds, "a")["leaseTransitions"] == 0
    assert one.restores == 0


def test_a_lease_that_was_deleted_is_made_again(one: Cloud, clouds: Clouds) -> None:
    """It may have gone with an API server that was restored to a time before it."""
    clouds.cluster.storage.remove(key_of(clouds.leases()[0]))
    clouds.run_for(20.0)
    assert spec_of(clouds, "a")["holderIdentity"] == "a"
    assert one.restores == 1


def test_a_lease_of_an_older_version_tells_that_the_api_server_was_restored(one: Cloud, clouds: Clouds) -> None:
    older = clouds.leases()[0]
    clouds.run_for(30.0)
    renewed = spec_of(clouds, "a")["renewTime"]
    clouds.cluster = Cluster(clouds.clock)
    clouds.serve(call("create", LeaseSettings(), body={key: older[key] for key in ("metadata", "spec")}))
    clouds.run_for(60.0)
    assert spec_of(clouds, "a")["renewTime"] != renewed
    assert one.restores == 1


def test_with_a_configured_name_the_next_process_takes_over_the_lease(
    clouds: Clouds, caplog: pytest.LogCaptureFixture
) -> None:
    clouds.kill(clouds.start("one", CONFIGURED))
    with caplog.at_level(logging.WARNING):
        clouds.start("two", CONFIGURED)
        clouds.run_for(1.0)
    assert spec_of(clouds, "cloud") | {"acquireTime": "", "renewTime": ""} == {
        "holderIdentity": "two", "leaseDurationSeconds": 30, "acquireTime": "", "renewTime": "", "leaseTransitions": 1,
    }  # fmt: skip
    assert "the Lease cloud was that of one" in caplog.text
    clouds.run_for(3700.0)
    assert "delete" not in clouds.all[-1].requests, "it is no dead one's"


def test_a_process_that_ends_leaves_the_lease_that_the_next_one_has_taken_over(clouds: Clouds) -> None:
    """Both run for a while when a Deployment with a configured name is rolled out."""
    former = clouds.start("one", CONFIGURED)
    clouds.run_for(1.0)
    clouds.start("two", CONFIGURED)
    clouds.run_for(1.0)
    assert release(former) == ["released"]
    assert spec_of(clouds, "cloud")["holderIdentity"] == "two"


def test_a_lease_that_is_taken_over_while_a_process_ends_stays(clouds: Clouds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its last look at it and the deletion."""
    former, serve = clouds.start("one", CONFIGURED), clouds.serve

    def taken_over(call: ApiCall) -> ApiResult:
        if call.verb == "delete":
            monkeypatch.undo()
            clouds.start("two", CONFIGURED)
            clouds.run_for(1.0)
        return serve(call)

    monkeypatch.setattr(clouds, "serve", taken_over)
    former.keeper.release(lambda: None)
    assert former.requests[-1] == "delete"
    assert spec_of(clouds, "cloud")["holderIdentity"] == "two"


def test_a_process_that_ends_while_it_takes_over_a_lease_deletes_it(clouds: Clouds) -> None:
    """Its write is on the way to the API server, which still has the Lease of the former process."""
    clouds.kill(clouds.start("one", CONFIGURED))
    two = clouds.start("two", CONFIGURED)
    on_the_way: list[Callable[[], None]] = []
    two.held = on_the_way
    clouds.run_for(1.0)
    assert two.requests == ["create", "get", "update"]
    two.held = None
    ends = release(two)
    for request in on_the_way:
        request()
    clouds.run_for(60.0)
    assert ends == ["released"]
    assert two.requests == ["create", "get", "update", "get", "delete"]
    assert clouds.leases() == []


def test_without_the_api_server_a_process_ends_as_well(one: Cloud, clouds: Clouds) -> None:
    one.is_away = True
    assert release(one) == ["released"]
    assert not one.keeper.owns("node/n1")


def test_a_right_that_is_missing_is_reported_once_each_time(clouds: Clouds, caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again each minute, and all duties are done meanwhile."""
    one = clouds.start("a", is_refused=True)
    clouds.run_for(3600.0)
    assert len(one.requests) == 61
    assert caplog.text.count("leases is forbidden") == 1
    assert all(one.keeper.owns(key) for key in KEYS)
    one.is_refused = False
    clouds.run_for(61.0)
    assert spec_of(clouds, "a")["holderIdentity"] == "a"
    one.is_refused = True
    clouds.run_for(3600.0)
    assert caplog.text.count("leases is forbidden") == 2, "once each time"


def test_leases_of_the_dead_are_deleted_by_one_after_an_hour(clouds: Clouds) -> None:
    first, second = (clouds.start(name) for name in "ab")
    dead = [clouds.start(f"dead{number}") for number in range(4)]
    for each in dead:
        clouds.kill(each)
    clouds.run_for(3500.0)
    assert len(clouds.leases()) == 6
    clouds.run_for(150.0)
    assert [lease["metadata"]["name"] for lease in clouds.leases()] == ["a", "b"]
    assert first.requests.count("delete") + second.requests.count("delete") == 4


def test_a_lease_that_is_renewed_after_all_is_not_deleted(clouds: Clouds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cloudcore was away from the API server for an hour."""
    first, second = (clouds.start(name) for name in "ab")
    clouds.kill(second)
    send = first._send

    def sent(call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        if call.verb == "delete":
            second.keeper._write()
        send(call, answered)

    monkeypatch.setattr(first, "_send", sent)
    clouds.run_for(3700.0)
    assert "delete" in first.requests
    assert [lease["metadata"]["name"] for lease in clouds.leases()] == ["a", "b"]


@pytest.mark.parametrize("is_readable", [False, True])
def test_a_lease_that_has_changed_before_each_write_is_tried_now_and_then(
    one: Cloud, clouds: Clouds, monkeypatch: pytest.MonkeyPatch, *, is_readable: bool
) -> None:
    """Whether or not it may be read."""
    read = ApiResult(clouds.leases()[0]) if is_readable else FORBIDDEN

    def refused(call: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        assert len(one.requests) < 100
        answered(CONFLICT if call.body else read)

    monkeypatch.setattr(one, "_send", refused)
    clouds.run_for(60.0)
    assert 5 <= one.requests.count("get") <= 30


def test_the_timers_do_not_become_more_with_time(clouds: Clouds) -> None:
    for name in "abc":
        clouds.start(name)
    clouds.run_for(3600.0)
    assert clouds.clock.pending() <= 40, "each has its next renewal, the next end of a Lease, and a few cancelled ones"


def test_a_lease_in_a_wrong_form_counts_as_given_up(one: Cloud, clouds: Clouds) -> None:
    clouds.start("b")
    clouds.run_for(1.0)
    one.keeper.observe("b", {"metadata": {"name": "b"}, "spec": {"holderIdentity": 5}})
    assert one.keeper.alive == ("a",)

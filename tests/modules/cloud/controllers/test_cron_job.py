"""CronJobs and their schedules, in virtual time."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from modules.apimachinery.cron_schedule import parse_schedule
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, uid_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import MERGE, ApiCall, ApiResult
from modules.cloud.controllers.cron_job import reconcile
from modules.cloud.controllers.job_status import is_finished
from modules.cloud.controllers.plan import NOTHING
from modules.cloud.controllers.pods import owner_reference
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.site import Site, site_of, workload, written_status
from tests.support.presence import present


def cron_job(schedule: str = "* * * * *", **spec: Any) -> JsonObject:
    template = {"spec": workload("Job", "tick")["spec"]}
    given = {"schedule": schedule, "jobTemplate": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": given}


def names(site: Site) -> list[str]:
    return [one["metadata"]["name"] for one in site.all("Job")]


def finish(site: Site, phase: str = "Succeeded") -> None:
    for pod in site.pods():
        if pod["status"]["phase"] == "Running":
            site.report(pod, phase, containerStatuses=[{"name": "main"}])
    site.run_for(1)


def times(schedule: str, zone: str, first: str, count: int) -> list[str]:
    """The times of a schedule in local time."""
    found, moment = [], datetime.fromisoformat(first).replace(tzinfo=ZoneInfo(zone)).timestamp()
    parsed = parse_schedule(schedule, zone)
    for _ in range(count):
        following = present(parsed.next_after(moment))
        assert parsed.latest(moment, following) == following
        moment = following
        found.append(datetime.fromtimestamp(moment, ZoneInfo(zone)).isoformat(sep=" "))
    return found


def test_a_job_each_minute_and_a_short_history() -> None:
    site = site_of(cron_job())
    for _ in range(6):
        site.run_for(60)
        finish(site)
    now = int(site.clock.now() // 60)
    assert names(site) == [f"tick-{now - ago}" for ago in (2, 1, 0)]
    status = site.get("CronJob", "tick")["status"]
    assert "lastScheduleTime" in status
    assert "lastSuccessfulTime" in status
    reasons = {reason for reason, _ in site.events()}
    assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= reasons


def test_one_run_after_cloudcore_was_down_for_hours() -> None:
    site = site_of(cron_job(), seconds=70)
    finish(site)
    site.clock.fire_next(site.clock.monotonic() + 3 * 3600)
    site.restart()
    site.run_for(1)
    assert len(names(site)) == 2
    assert any(reason == "TooManyMissedTimes" for reason, _ in site.events())


def test_forbid_skips_and_replace_replaces() -> None:
    site = site_of(cron_job(concurrencyPolicy="Forbid"), seconds=200)
    assert len(names(site)) == 1
    assert any(reason == "JobAlreadyActive" for reason, _ in site.events())
    site.patch(site.get("CronJob", "tick"), {"spec": {"concurrencyPolicy": "Replace"}}, seconds=200)
    assert len([one for one in site.all("Job") if not is_finished(one)]) == 1
    assert all(reason != "MissingJob" for reason, _ in site.events()), "the controller itself has deleted it"


def test_a_job_that_is_being_deleted_keeps_the_next_one_out_until_it_is_gone() -> None:
    """A deletion in the foreground waits for its pods, which may still run."""
    site = site_of(cron_job(concurrencyPolicy="Forbid"), seconds=61)
    (first,) = names(site)
    site.call("delete", site.get("Job", first), options={"propagationPolicy": "Foreground"}, seconds=200)
    assert names(site) == [first]
    assert [one["name"] for one in site.get("CronJob", "tick")["status"]["active"]] == [first]
    site.patch(site.get("Job", first), {"metadata": {"finalizers": None}})  # the garbage collector has done its work
    site.run_for(60)
    (following,) = names(site)
    assert following != first


def test_all_jobs_that_run_are_replaced() -> None:
    site = site_of(cron_job(), seconds=190)
    assert len(names(site)) > 1
    site.patch(site.get("CronJob", "tick"), {"spec": {"concurrencyPolicy": "Replace"}}, seconds=60)
    assert len(names(site)) == 1


def test_the_last_success_is_that_of_the_job_that_ended_last() -> None:
    """A later one may have ended earlier. Times are compared as such: anybody may have written a Job's status."""
    view, owner = View(), {"kind": "CronJob", "apiVersion": "batch/v1", "name": "tick", "uid": "u", "controller": True}
    made = cron_job(suspend=True)
    made["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    view.put(made)
    for number, ended in ((1, "00:05:00Z"), (2, "00:03:00Z"), (3, "02:04:00+02:00"), (4, "yesterday")):
        metadata = {"name": f"tick-{number}", "namespace": "default", "uid": f"j{number}", "resourceVersion": "2"}
        status = {"completionTime": f"2026-01-01T{ended}"}
        view.put({"kind": "Job", "apiVersion": "batch/v1", "metadata": {**metadata, "ownerReferences": [owner]},
                  "spec": {}, "status": status})  # fmt: skip
    plan = reconcile(view, key_of(made), 1_800_000_000.0)
    assert written_status(plan)["lastSuccessfulTime"] == "2026-01-01T00:05:00Z"


@pytest.mark.parametrize(
    ("zone", "ends"), [("", "Z"), ("Etc/UTC", "Z"), ("Asia/Kolkata", "+05:30"), ("America/Lima", "-05:00")]
)
def test_a_job_has_its_scheduled_time_in_the_zone_of_its_cron_job(zone: str, ends: str) -> None:
    site = site_of(cron_job(**{"timeZone": zone} if zone else {}), seconds=60)
    (job,) = site.all("Job")
    text = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert text.endswith(ends)
    assert datetime.fromisoformat(text).timestamp() == 60 * int(job["metadata"]["name"].rpartition("-")[2])


def test_a_suspended_one_makes_none() -> None:
    site = site_of(cron_job(suspend=True), seconds=600)
    assert names(site) == []


def test_late_times_are_missed() -> None:
    site = site_of(cron_job("0 * * * *", startingDeadlineSeconds=60))
    site.clock.fire_next(site.clock.monotonic() + 2 * 3600 + 600)
    site.run_for(1)
    assert names(site) == []
    assert any(reason == "MissSchedule" for reason, _ in site.events())


@pytest.mark.parametrize(
    ("age", "last", "deadline", "expected"),
    [
        (20, None, None, []),
        (90, None, None, [30]),
        (400, None, None, [30]),
        (400, 30, None, []),
        (400, 90, None, [30]),
        (400, None, 31, [30]),
        (400, None, 29, ["MissSchedule"]),
        (400, 30, 29, []),
        (6001, None, None, [30]),
        (6031, None, None, ["TooManyMissedTimes", 30]),
        (9000, 6030, None, [30]),
        (9000, 6090, None, ["TooManyMissedTimes", 30]),
        (9000, None, 6000, [30]),
        (9000, None, 6031, ["TooManyMissedTimes", 30]),
        (9000, 90, 6031, [30]),
    ],
)
def test_missed_times_that_are_made_up_for(
    age: int, last: int | None, deadline: int | None, expected: list[int | str]
) -> None:
    """One of each minute, 30 s after one. All are seconds ago: its creation, its last time, how late it may start, and
    the time of the Job that is made.
    """
    now = 60 * 16_000_000 + 30.0
    owner = cron_job(startingDeadlineSeconds=deadline)
    created = format_rfc3339(now - age)
    owner["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1", "creationTimestamp": created}
    owner["status"] = {"lastScheduleTime": format_rfc3339(now - last)} if last else {}
    view = View()
    view.put(owner)
    plan = reconcile(view, key_of(owner), now)
    made = [now - 60 * int(str(write.call.body["metadata"]["name"]).rpartition("-")[2]) for write in plan.writes]
    assert [*(event.reason for event in plan.events), *made] == expected


class AJob(NamedTuple):
    """A Job of the CronJob, made so many minutes ago."""

    name: str
    age: int
    end: str = ""
    """The type of its last condition."""
    is_listed: bool = True
    """Whether it is among the active ones of the status."""
    is_by_hand: bool = False
    """Whether a person has made it (`kubectl create job --from=cronjob/tick`)."""
    is_ending: bool = False


def look(*jobs: AJob, active: Sequence[str] = (), **spec: Any) -> tuple[list[str], list[str], list[str], float | None]:
    """Return the names of the Jobs that one look deletes, or "+" for one that it makes; the status's active ones; the
    reasons of Events; and the seconds until the next look. The CronJob is 25.5 minutes old, and the last minute's Job
    is due.
    """
    now = 60 * 16_000_000 + 30.0
    owner = cron_job(**spec)
    owner["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    owner["metadata"]["creationTimestamp"] = format_rfc3339(now - 25.5 * 60)
    references = [{"name": one.name, "uid": one.name} for one in jobs if one.is_listed]
    references += [{"name": name, "uid": name} for name in active]
    owner["status"] = {"active": references, "lastScheduleTime": format_rfc3339(now - 90)}
    if str(spec.get("schedule")).startswith("@every"):
        del owner["status"]["lastScheduleTime"]
    view = View()
    view.put(owner)
    for one in jobs:
        scheduled = {} if one.is_by_hand else {"batch.kubernetes.io/cronjob-scheduled-timestamp": "then"}
        metadata = {
            "name": one.name, "namespace": "default", "uid": one.name, "resourceVersion": "2", "annotations": scheduled,
            "creationTimestamp": format_rfc3339(now - 60 * one.age), "ownerReferences": [owner_reference(owner)],
            **({"deletionTimestamp": format_rfc3339(now)} if one.is_ending else {}),
        }  # fmt: skip
        ended = [{"type": one.end, "status": "True"}] if one.end else []
        view.put({"kind": "Job", "apiVersion": "batch/v1", "metadata": metadata, "spec": {},
                  "status": {"conditions": ended}})  # fmt: skip
    plan = reconcile(view, key_of(owner), now)
    writes = ["+" if write.call.verb == "create" else write.call.name for write in plan.writes]
    status = written_status(plan) if plan.status is not None and plan.status.call.body else owner["status"]
    left = [one["name"] for one in status.get("active", ())]
    return writes, left, [event.reason for event in plan.events], plan.again_at and plan.again_at - now


@pytest.mark.parametrize(
    ("policy", "jobs", "expected"),
    [
        ("Allow", [AJob("a", 2), AJob("b", 1)], (["+"], ["a", "b"], [])),
        ("Forbid", [AJob("a", 2)], ([], ["a"], ["JobAlreadyActive"])),
        ("Forbid", [AJob("a", 2, "Failed")], (["+"], [], ["SawCompletedJob"])),
        ("Forbid", [AJob("a", 2, is_ending=True)], ([], ["a"], ["JobAlreadyActive"])),
        ("Forbid", [AJob("a", 2, is_listed=False)], ([], ["a"], ["JobAlreadyActive"])),
        ("Forbid", [AJob("a", 2, is_listed=False, is_by_hand=True)], (["+"], [], [])),
        ("Replace", [AJob("b", 1), AJob("a", 2)], (["a", "b", "+"], [], [])),
        ("Replace", [AJob("a", 2, is_ending=True)], (["+"], [], [])),
        ("Replace", [AJob("a", 2, is_listed=False, is_by_hand=True)], (["+"], [], [])),
        ("Replace", [AJob("a", 2, "Complete")], (["+"], [], ["SawCompletedJob"])),
        ("Allow", [AJob("a", 2, "Complete", is_listed=False)], (["+"], [], [])),
    ],
)
def test_jobs_that_run_meet_the_next_one_by_the_policy(
    policy: str, jobs: list[AJob], expected: tuple[list[str], list[str], list[str]]
) -> None:
    """A Job that a person has made from the template is in nobody's way, and stays."""
    writes, active, events, _ = look(*jobs, concurrencyPolicy=policy)
    assert (sorted(writes[:-1]) + writes[-1:], active, events) == expected


def test_nothing_is_done_for_a_cron_job_that_is_being_deleted_or_gone() -> None:
    made = cron_job()
    made["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    made["metadata"]["deletionTimestamp"] = made["metadata"]["creationTimestamp"] = format_rfc3339(1e9 - 90)
    view = View()
    view.put(made)
    assert reconcile(view, key_of(made), 1e9) == reconcile(View(), key_of(made), 1e9) == NOTHING


def test_an_active_job_that_is_gone_is_reported() -> None:
    assert look(active=["gone"]) == (["+"], [], ["MissingJob"], 30.0)


@pytest.mark.parametrize(
    ("jobs", "limits", "gone"),
    [
        ([AJob(name, 9, "Complete") for name in "abc"], {}, []),
        ([AJob("d", 6, "Complete"), *(AJob(name, 9, "Complete") for name in "cab")], {}, ["a"]),
        ([AJob(name, age, "Complete") for name, age in zip("abcde", (9, 12, 8, 11, 10), strict=True)], {}, ["b", "d"]),
        ([AJob("a", 9, "Failed"), AJob("b", 8, "Failed"), AJob("c", 7, "Complete"), AJob("d", 30)], {}, ["a"]),
        ([AJob("a", 9, "Failed"), AJob("b", 8, "Complete")], {"failedJobsHistoryLimit": 0}, ["a"]),
        ([AJob("a", 9, "Failed"), AJob("b", 8, "Complete")], {"successfulJobsHistoryLimit": 0}, ["b"]),
        ([AJob("a", 9, "Failed", is_ending=True), AJob("b", 8, "Failed")], {"failedJobsHistoryLimit": 0}, ["b"]),
    ],
)  # fmt: skip
def test_the_oldest_ended_jobs_go_beyond_the_limits(jobs: list[AJob], limits: JsonObject, gone: list[str]) -> None:
    """Three that have completed are kept, and one that has failed, if nothing else is said."""
    assert look(*jobs, suspend=True, **limits)[0] == gone


@pytest.mark.parametrize(("interval", "seconds"), [("10m", 4.5 * 60), ("25m30s", 25.5 * 60), ("26m", 30), ("1m", 30)])
def test_an_interval_whose_job_is_not_made_is_looked_at_at_its_next_time(interval: str, seconds: float) -> None:
    found = look(AJob("a", 2), concurrencyPolicy="Forbid", schedule=f"@every {interval}")
    assert found[0] == []
    assert found[3] == seconds


@pytest.mark.parametrize(
    ("schedule", "reason"), [("@fortnightly", "UnparseableSchedule"), ("59 23 31 2 *", "InvalidSchedule")]
)
def test_a_schedule_without_a_time_is_reported(schedule: str, reason: str) -> None:
    """One of an API server that knows other schedules or time zones, or a day that no month has."""
    owner = cron_job(schedule)
    owner["metadata"] |= {"namespace": "default", "uid": "u", "resourceVersion": "1"}
    view = View()
    view.put(owner)
    plan = reconcile(view, key_of(owner), 60 * 16_000_000.0)
    assert [event.reason for event in plan.events] == [reason]
    assert (list(plan.writes), plan.again_at) == ([], None)


@pytest.mark.parametrize("spec", [{"timeZone": "Pacific/Kiritimati"}, {"schedule": "@every 1m"}])
@pytest.mark.parametrize("last", ["9999-12-31T23:59:59Z", "2999-01-01T00:00:00Z"])
def test_a_cron_job_last_scheduled_in_the_future_waits_for_that_time_and_ends_nothing(
    spec: dict[str, str], last: str
) -> None:
    """As KCM's mostRecentScheduleTime; a date of the year 9999 has no date in zones east of Greenwich."""
    site = site_of(cron_job(**spec))
    key, status = ObjectKey("CronJob", "default", "tick"), {"status": {"lastScheduleTime": last}}
    assert site.call("patch", key, patch_type=MERGE, subresource="status", body=status).object is not None
    site.run_for(600)
    assert names(site) == []
    site.apply({**cron_job(), "metadata": {"name": "other"}}, seconds=60)
    assert len(names(site)) == 1


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_killed_between_the_job_and_the_status_there_is_no_second_job(policy: str) -> None:
    """And the first one goes on, although a policy ends or minds earlier Jobs."""
    site = Site()
    lost = iter([True])
    made: list[str] = []

    def answer(call: ApiCall) -> ApiResult | None:
        if call.plural == "cronjobs" and site.all("Job") and next(lost, False):
            made.extend(uid_of(job) for job in site.all("Job"))
            return ApiResult(refusal={"code": 504, "message": "lost"})
        return None

    site.answer = answer
    site.apply(cron_job("0 0 1 1 *", concurrencyPolicy=policy))
    first = present(parse_schedule("0 0 1 1 *").next_after(site.clock.now()))
    site.run_for(first - site.clock.now() + 5)
    assert [uid_of(job) for job in site.all("Job")] == made
    assert len(made) == 1
    assert "lastScheduleTime" in site.get("CronJob", "tick")["status"]


def test_times_at_a_change_of_summer_time() -> None:
    assert times("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", 2) == [
        "2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00",
    ]  # fmt: skip
    assert times("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 2) == [
        "2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00",
    ]  # fmt: skip
    for hourly in ("0 * * * *", "0 ? * * *"):
        assert times(hourly, "Europe/Berlin", "2026-10-25 01:30", 3) == [
            "2026-10-25 02:00:00+02:00", "2026-10-25 02:00:00+01:00", "2026-10-25 03:00:00+01:00",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("@every 90m", ["2026-01-01 01:30", "2026-01-01 03:00"]),
        ("0 0 */1 * 1", ["2026-01-05 00:00", "2026-01-12 00:00"]),
        ("0 0 */2 * 1", ["2026-01-03 00:00", "2026-01-05 00:00"]),
        ("*/20 9-10 ? * MON-FRI", ["2026-01-01 09:00", "2026-01-01 09:20"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("@every 1.5h", ["2026-01-01 01:30", "2026-01-01 03:00"]),
        ("@every 60500ms", ["2026-01-01 00:01", "2026-01-01 00:02"]),
        ("0 1,,2 * * *", ["2026-01-01 01:00", "2026-01-01 02:00"]),
        ("0 0 *-5 * 1", ["2026-01-05 00:00", "2026-01-12 00:00"]),
        ("0 0 */01 * 1", ["2026-01-05 00:00", "2026-01-12 00:00"]),
        ("@weekly", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("5/25 0 * jan *", ["2026-01-01 00:05", "2026-01-01 00:30"]),
    ],
)
def test_schedules(schedule: str, expected: list[str]) -> None:
    assert times(schedule, "UTC", "2026-01-01 00:00", 2) == [f"{each}:00+00:00" for each in expected]


def test_an_interval_has_a_second_at_least_and_does_not_begin_with_its_start() -> None:
    for short in ("0s", "0", "-1h", "1us", "999ms"):
        assert parse_schedule(f"@every {short}").next_after(0.0) == 1.0
    assert list(parse_schedule("@every 1h").backwards(0.0, 7200.0)) == [7200.0, 3600.0]
    assert list(parse_schedule("0 * * * *").backwards(0.0, 7200.0)) == [7200.0, 3600.0]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_the_latest_times_come_first(zone: str) -> None:
    """Also on the day of a change of summer time."""
    moment = datetime(2026, 3, 29, tzinfo=ZoneInfo(zone)).timestamp()
    found = list(parse_schedule("*/20 * * * *", zone).backwards(moment - 4800, moment + 7200))
    assert found == [moment + 1200 * number for number in range(6, -4, -1)]


class Numbers(frozenset[int]):
    """The minutes of a schedule, which count how often they are asked for."""

    asked = 0

    def __iter__(self) -> Iterator[int]:
        self.asked += 1
        return super().__iter__()


def test_the_latest_time_is_not_looked_for_in_hours_before_and_after() -> None:
    """A cloudcore looks for the latest time of each CronJob again and again."""
    schedule = parse_schedule("* * * * *")._replace(minutes=Numbers(range(60)))
    assert schedule.latest(0.0, 43205.0) == 43200.0
    assert isinstance(schedule.minutes, Numbers)
    assert schedule.minutes.asked == 1


def test_the_29th_of_february_comes_after_a_century_without_one() -> None:
    assert times("0 0 29 2 *", "UTC", "2096-03-01 00:00", 1) == ["2104-02-29 00:00:00+00:00"]


LONG = "0," * 123
"""The longest schedule begins so."""


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * *", "60 * * * *", "* * * * 7", "@never", "*/0 * * * *", "0 0 L * *", "1-0 * * * *",
     "* * * * * *", "TZ=UTC 0 0 * * *", "@every 1x", "@every ", LONG + "0,0 * * * *"],
)  # fmt: skip
def test_other_texts_than_schedules(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_schedule(schedule)


def test_a_schedule_may_be_long() -> None:
    assert parse_schedule(f"{LONG}0 * * * *").minutes == {0}


def test_an_interval_that_is_none_is_told_in_gos_words() -> None:
    with pytest.raises(ValueError, match='failed to parse duration @every 1d: time: unknown unit "d" in duration "1d"'):
        parse_schedule("@every 1d")


def test_a_day_that_never_comes() -> None:
    assert parse_schedule("0 0 31 2 *").next_after(0.0) is None


def test_an_unknown_zone() -> None:
    with pytest.raises(ValueError, match="unknown time zone Mars/Base"):
        parse_schedule("* * * * *", "Mars/Base")

"""The controller of CronJobs: makes Jobs at their times (KCM 1.32, `pkg/controller/cronjob`)."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import islice
from typing import Final

from modules.apimachinery.cron_schedule import Schedule, parse_schedule
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, uid_of
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.cloud.controllers.job_status import finished, is_finished
from modules.cloud.controllers.plan import (
    NORMAL,
    NOTHING,
    WARNING,
    EventNote,
    PlannedWrite,
    ReconcilePlan,
    create,
    delete,
    update_status,
)
from modules.cloud.controllers.pods import by_age, created_at, owner_reference
from modules.cloud.controllers.view import View, is_controlled_by

_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY_MISSED: Final = 100
_BACKGROUND: Final = {"propagationPolicy": "Background"}


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the plan for a CronJob."""
    cron_job = view.find(key)
    if cron_job is None or is_being_deleted(cron_job):
        return NOTHING
    return _Pass(view, cron_job, now).plan()


class _Pass:
    """One look at a CronJob."""

    def __init__(self, view: View, cron_job: JsonObject, now: float) -> None:
        self._view = view
        self._cron_job = cron_job
        self._spec: JsonObject = cron_job["spec"]
        self._now = now
        self._jobs = view.owned_by(cron_job, "Job")
        self._status: JsonObject = dict(cron_job.get("status") or {})
        self._listed: dict[object, JsonObject] = {one.get("uid"): one for one in self._status.get("active") or ()}
        self._events: list[EventNote] = []
        self._writes: list[PlannedWrite] = []

    def plan(self) -> ReconcilePlan:
        self._remove_ended()
        self._clean_up()
        again_at = None
        if not self._spec.get("suspend"):
            try:
                schedule = parse_schedule(str(self._spec.get("schedule")), str(self._spec.get("timeZone") or ""))
            except ValueError as error:
                self._events.append(EventNote(WARNING, "UnparseableSchedule", f"unparseable schedule: {error}"))
            else:
                self._run(schedule)
                again_at = schedule.next_after(self._since() if schedule.every else self._now)
                if again_at is None:
                    words = f"invalid schedule: {self._spec.get('schedule')} : no such time comes"
                    self._events.append(EventNote(WARNING, "InvalidSchedule", words))
                elif again_at <= self._now:
                    again_at += ((self._now - again_at) // schedule.every + 1) * schedule.every
        status = {name: value for name, value in self._status.items() if value not in (None, [])}
        return ReconcilePlan(
            tuple(self._writes), update_status(self._cron_job, status), tuple(self._events), again_at=again_at
        )

    def _active(self) -> list[JsonObject]:
        """Return the Jobs that the controller has made; a person may have made others from the template."""
        unfinished = (job for job in self._jobs if not is_finished(job))
        return [
            job
            for job in unfinished
            if _SCHEDULED in (job["metadata"].get("annotations") or {}) or uid_of(job) in self._listed
        ]

    def _remove_ended(self) -> None:
        """Take Jobs that have ended out of the active ones, with Events."""
        for job in self._jobs:
            end = finished(job)
            if end is not None and uid_of(job) in self._listed:
                words = f"Saw completed job: {job['metadata']['name']}, condition: {end['type']}"
                self._events.append(EventNote(NORMAL, "SawCompletedJob", words))
            done = (job.get("status") or {}).get("completionTime")
            if _moment(done) > _moment(self._status.get("lastSuccessfulTime")):
                self._status["lastSuccessfulTime"] = done
        present = {uid_of(job) for job in self._jobs}
        for uid, one in self._listed.items():
            if uid not in present:
                words = f"Active job went missing: {one.get('name')}"
                self._events.append(EventNote(NORMAL, "MissingJob", words))
        active = sorted(self._active(), key=by_age)
        self._status["active"] = [self._listed.get(uid_of(job)) or _reference(job) for job in active]

    def _clean_up(self) -> None:
        """Delete the oldest Jobs beyond the limits of the history."""
        for kind, limit in (
            ("Complete", self._spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", self._spec.get("failedJobsHistoryLimit", 1)),
        ):
            ended = [job for job in self._jobs if (finished(job) or {}).get("type") == kind]
            ended.sort(key=by_age)
            self._delete(ended[: max(0, len(ended) - int(limit))])

    def _delete(self, jobs: Sequence[JsonObject]) -> None:
        for job in jobs:
            if not is_being_deleted(job):
                note = EventNote(NORMAL, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
                self._writes.append(delete(job, _BACKGROUND, done=note))

    def _since(self) -> float:
        """Return the last scheduled time, or the time of the CronJob's creation."""
        return max(created_at(self._cron_job), _moment(self._status.get("lastScheduleTime")))

    def _run(self, schedule: Schedule) -> None:
        """Make the Job of the latest time, if there was one since the last."""
        since, deadline = self._since(), self._spec.get("startingDeadlineSeconds")
        moment = schedule.latest(since, self._now) if since < self._now else None
        if moment is None:
            return
        if isinstance(deadline, int) and moment < self._now - deadline:
            words = f"Missed scheduled time to start a job: {format_rfc3339(moment)}"
            self._events.append(EventNote(WARNING, "MissSchedule", words))
            return
        earliest = since if deadline is None else max(since, self._now - deadline)
        missed = sum(1 for _ in islice(schedule.backwards(earliest, self._now), _MANY_MISSED + 1))
        if missed > _MANY_MISSED:
            advice = "Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            words = f"too many missed start times: {missed}. {advice}"
            self._events.append(EventNote(WARNING, "TooManyMissedTimes", words))
        job = self._job(moment, schedule.zone)
        key = ObjectKey("Job", job["metadata"]["namespace"], job["metadata"]["name"])
        taken = self._view.find(key)
        if taken is not None and is_controlled_by(
            taken, self._cron_job
        ):  # an earlier cloudcore made it, and was killed
            self._status["lastScheduleTime"] = format_rfc3339(moment)
            return
        policy, active = self._spec.get("concurrencyPolicy"), self._active()
        if policy == "Forbid" and active:
            words = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._events.append(EventNote(NORMAL, "JobAlreadyActive", words))
            return
        if policy == "Replace" and active:
            self._delete(active)
            self._status["active"] = []
        made = EventNote(NORMAL, "SuccessfulCreate", f"Created job {key.name}")
        refused = EventNote(WARNING, "FailedCreate", "Error creating job: {why}")
        self._writes.append(create(job, done=made, refused=refused))
        self._status["lastScheduleTime"] = format_rfc3339(moment)

    def _job(self, moment: float, zone: tzinfo) -> JsonObject:
        template, metadata = self._spec.get("jobTemplate") or {}, self._cron_job["metadata"]
        given = template.get("metadata") or {}
        labels = {"labels": given["labels"]} if given.get("labels") else {}
        local = datetime.fromtimestamp(int(moment), zone).isoformat().replace("+00:00", "Z")
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **labels,
                "annotations": {**(given.get("annotations") or {}), _SCHEDULED: local},
                "name": f"{metadata['name']}-{int(moment // 60)}",
                "namespace": metadata["namespace"],
                "ownerReferences": [owner_reference(self._cron_job)],
            },
            "spec": template.get("spec") or {},
        }


def _moment(text: object) -> float:
    return parse_rfc3339(str(text or "")) or 0.0


def _reference(job: JsonObject) -> JsonObject:
    metadata = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "resourceVersion": metadata["resourceVersion"],
        "uid": metadata["uid"],
    }

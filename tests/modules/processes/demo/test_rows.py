"""Pods as rows, rows as a table and as lines."""

from modules.processes.demo.examples import Expectation, ObjectName
from modules.processes.demo.rows import Row, line_of, row_of, table_of
from tests.modules.processes.demo.pods import ended, pod, running, waiting

_NAME = ObjectName("default", "p")
_NOW = 1_795_143_600.0 + 90
"""Ninety seconds after the pods of `pods` were created."""


def test_a_running_pod() -> None:
    """Everything in the row comes from the pod; the age from the clock."""
    row = row_of(_NAME, Expectation.RUNNING, pod("Running", running(), ready=True), _NOW)
    assert row == Row("p", there=True, phase="Running", ready="1/1", restarts=0, message="", age="90s")


def test_a_pod_that_the_cloud_does_not_have() -> None:
    """It has a row all the same, and is not where it should be."""
    assert row_of(_NAME, Expectation.RUNNING, None, _NOW) == Row("p", False, "-", "-", 0, "", "-")  # noqa: FBT003


def test_table() -> None:
    """Columns are aligned, and a line that is too long ends in an ellipsis."""
    rows = [
        row_of(_NAME, Expectation.SUCCEEDED, pod("Succeeded", ended(0)), _NOW),
        row_of(ObjectName("default", "q"), Expectation.CRASH_LOOP, pod("Running", waiting("ImagePullBackOff")), _NOW),
    ]
    assert table_of(rows, width=67) == [
        "     NAME   PHASE       READY   RESTARTS   AGE   LAST MESSAGE",
        "ok   p      Succeeded   0/1     0          90s   app: Completed, e…",
        "…    q      Running     0/1     0          90s   app: ImagePullBack…"[:66] + "…",
    ]


def test_lines() -> None:
    """A line says all that the table says, and restarts only when there are any."""
    row = row_of(_NAME, Expectation.CRASH_LOOP, pod("Running", waiting("CrashLoopBackOff", restarts=1)), _NOW)
    assert line_of(row) == "p: Running, 0/1 ready, 1 restart, 90s old [as it should be]: app: CrashLoopBackOff"
    assert line_of(row._replace(restarts=2, there=False, message="")) == "p: Running, 0/1 ready, 2 restarts, 90s old"
    assert line_of(row._replace(restarts=0, there=False, message="")) == "p: Running, 0/1 ready, 90s old"


def test_workloads() -> None:
    """Of a Deployment or DaemonSet, its pods count; of a CronJob, when it has run."""
    deployment = {"metadata": {}, "spec": {"replicas": 2}, "status": {"availableReplicas": 1}}
    name = ObjectName("default", "w", "Deployment")
    row = row_of(name, Expectation.AVAILABLE, deployment, _NOW)
    assert (row.name, row.there, row.phase, row.ready) == ("deployment/w", False, "Progressing", "1/2")
    daemon_set = {"metadata": {}, "status": {"desiredNumberScheduled": 1, "numberAvailable": 1}}
    row = row_of(ObjectName("default", "d", "DaemonSet"), Expectation.AVAILABLE, daemon_set, _NOW)
    assert (row.there, row.phase, row.ready) == (True, "Available", "1/1")
    service = {"metadata": {}, "status": {"message": "refused"}}
    name = ObjectName("default", "s", "Service")
    row = row_of(name, Expectation.ANSWERS, service, _NOW)
    assert (row.there, line_of(row)) == (False, "service/s: Waiting")
    row = row_of(name, Expectation.ANSWERS, {**service, "status": {"answer": "http://s:80: hello"}}, _NOW)
    assert (row.there, line_of(row)) == (True, "service/s: Answers [as it should be]: http://s:80: hello")
    cron_job = {"metadata": {}, "spec": {"schedule": "* * * * *"}, "status": {"lastScheduleTime": "T"}}
    row = row_of(ObjectName("default", "c", "CronJob"), Expectation.SCHEDULED, cron_job, _NOW)
    assert (row.there, row.phase, row.message) == (True, "Scheduled", "schedule * * * * *, last at T")

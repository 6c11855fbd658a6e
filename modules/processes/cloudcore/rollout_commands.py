"""The commands `cloudcore upgrade nodes`, `upgrade resume`, `upgrade status` and `cloudcore prepull`: jobs of nodes, in
waves, and how they go on.

They make the same objects that a person writes; nothing else is kept of them.
"""

from __future__ import annotations

import math
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from beehive.decoding import decode_json
from beehive.printable import printable
from modules.apimachinery.printing.ages import human_duration
from modules.apimachinery.printing.terminal import print_error, print_lines
from modules.processes.cloudcore.errors import ControlError
from modules.processes.cloudcore.paths import add_socket_options
from modules.processes.common.durations import whole_seconds_option
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.tables import Table, add_form, print_table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator, Sequence

    from modules.apimachinery.kinds import JsonObject
    from modules.apimachinery.node_job_kinds import JobKind
    from modules.apimachinery.selectors import Requirement
    from modules.processes.cloudcore.control_client import ControlClient

UPGRADE_CHECKS: Final = ("mem", "disk")
"""What a node looks at before it upgrades itself."""
_VERSION: Final = re.compile(r"v?([0-9][0-9A-Za-z.+]{0,60})", re.ASCII)
_NONE: Final = "<none>"
_MOST_VERSIONS: Final = 10
"""Versions that a refusal names."""
_JOBS: Final = ("NAME", "KIND", "PHASE", "DONE", "FAILED", "RUNNING", "WAITING", "AGE", "REASON")
_NODES: Final = ("NODE", "WAVE", "STATE", "STEP", "SINCE", "FROM", "TO", "REASON")
_LONGEST: Final = 120
"""Characters of a reason in a table."""


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    parser = commands.add_parser(
        "upgrade", help="let nodes run another version of edgecore, in waves; `upgrade status`"
    )
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    nodes = actions.add_parser("nodes", help="upgrade nodes to a version that `cloudcore run --bundles` serves")
    nodes.add_argument("node", nargs="*", metavar="NODE", help="its name")
    nodes.add_argument("--to", required=True, metavar="VERSION", help="version of edgecore, such as 1.2.0")
    nodes.absent("--image", "nodes take signed bundles, no container images: `make bundle`, `cloudcore run --bundles`")
    nodes.add_argument(
        "--not-served", action="store_true", help="also a version that is not there: nodes have it in other sources"
    )
    nodes.add_argument("--confirm", action="store_true", help="each node waits for `edgecore job --confirm` there")
    _add_order(nodes, "upgrade-to-VERSION")
    nodes.set_defaults(command=f"{__name__}:upgrade_nodes")
    resume = actions.add_parser("resume", help="go on with the nodes on which a job has not succeeded, in a new job")
    resume.add_argument("job", metavar="JOB")
    add_socket_options(resume)
    resume.set_defaults(command=f"{__name__}:resume")
    status = actions.add_parser("status", help="print how the jobs of nodes go on, or one job node by node")
    status.add_argument("job", nargs="?", default="", metavar="JOB")
    add_form(status)
    add_socket_options(status)
    status.set_defaults(command=f"{__name__}:status")
    prepull = commands.add_parser("prepull", help="let nodes pull images before pods need them, in waves")
    prepull.add_argument("image", nargs="+", metavar="IMAGE")
    prepull.add_argument("--node", action="append", default=[], metavar="NODE", help="its name; also several times")
    prepull.add_argument("--secret", default="", metavar="NAMESPACE/NAME", help="the pull secret")
    prepull.add_argument(
        "--retries", type=int, default=3, metavar="NUMBER", help="retries of each image (default: %(default)s)"
    )
    _add_order(prepull, "prepull-TIME")
    prepull.set_defaults(command=f"{__name__}:prepull")


def _add_order(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        "-l", "--selector", default="", metavar="LABELS", help="nodes with these labels: site=kiel,!spare"
    )
    parser.add_argument("--all", "-a", action="store_true", help="all nodes")
    parser.add_argument("--waves", default="", metavar="SIZES", help="such as 1,10%%,all (default: no waves)")
    parser.add_argument(
        "--pause", type=whole_seconds_option, default=0, metavar="DURATION", help="quiet time between two waves: 10m"
    )
    parser.add_argument(
        "--concurrency", type=int, default=1, metavar="NUMBER", help="nodes at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--tolerate", default="0", metavar="SHARE", help="share of the nodes that may fail (default: %(default)s): 0.1"
    )
    parser.add_argument(
        "--timeout", type=whole_seconds_option, default=3600, metavar="DURATION",
        help="until a node that shows nothing is given up (default: 1h)",
    )  # fmt: skip
    parser.add_argument("--name", default="", metavar="NAME", help=f"name of the job (default: {name})")
    add_socket_options(parser)


def upgrade_nodes(chosen: argparse.Namespace) -> int:
    """Run `cloudcore upgrade nodes`."""
    from modules.apimachinery.node_job_kinds import JobKind  # noqa: PLC0415 - the command line is quick

    version = _VERSION.fullmatch(chosen.to)
    if version is None:
        print_error("cloudcore", f"--to {printable(chosen.to)}: no version, such as 1.2.0")
        return ExitCode.USAGE
    name = chosen.name or f"upgrade-to-{re.sub('[^a-z0-9.]+', '-', version[1].lower())}".rstrip(".-")
    spec: JsonObject = {"version": f"v{version[1]}", "checkItems": list(UPGRADE_CHECKS)}
    if chosen.confirm:
        spec["requireConfirmation"] = True
    return _ordered(chosen, JobKind.NODE_UPGRADE, name, spec, chosen.node, "" if chosen.not_served else version[1])


def _check_served(client: ControlClient, version: str) -> None:
    """Raise ControlError for a version that `--bundles` lacks; without it nodes have other sources."""
    served = client.bundles()
    if not served.directory or version in served.versions:
        return
    there = served.problem or f"it has {', '.join(served.versions[-_MOST_VERSIONS:]) or 'no bundle'}"
    hint = "`make bundle` makes one; --not-served if nodes have it in other sources"
    raise ControlError(f"{served.directory} has no bundle of the version", version, f"{there}; {hint}")


def prepull(chosen: argparse.Namespace) -> int:
    """Run `cloudcore prepull`."""
    from modules.apimachinery.node_job_kinds import JobKind  # noqa: PLC0415 - as above

    name = chosen.name or time.strftime("prepull-%Y%m%d-%H%M%S", time.gmtime())
    spec: JsonObject = {"images": chosen.image, "retryTimes": max(0, chosen.retries), "checkItems": ["disk"]}
    if chosen.secret:
        spec["imageSecrets"] = chosen.secret
    return _ordered(chosen, JobKind.IMAGE_PRE_PULL, name, spec, chosen.node)


def _ordered(
    chosen: argparse.Namespace, kind: JobKind, name: str, spec: JsonObject, nodes: Sequence[str], version: str = ""
) -> int:
    """Make a job; with a version only if cloudcore serves it, as far as it serves any."""
    from modules.apimachinery.node_job_kinds import JobKind  # noqa: PLC0415 - as above
    from modules.apimachinery.node_jobs import TEMPLATE  # noqa: PLC0415
    from modules.cloud.taskmanager.progress import EDGE  # noqa: PLC0415
    from modules.cloud.taskmanager.waves import PAUSE, WAVES, Waves  # noqa: PLC0415
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415

    annotations = {WAVES: chosen.waves, PAUSE: str(chosen.pause)} if chosen.waves else {}
    try:
        if sum((bool(nodes), bool(chosen.selector), chosen.all)) != 1:
            raise ValueError("name nodes, or give either -l LABELS or --all")
        targets = {"nodeNames": list(nodes)} if nodes else {"labelSelector": label_selector(chosen.selector or EDGE)}
        if not 0 <= float(chosen.tolerate) <= 1:
            raise ValueError(f"--tolerate {chosen.tolerate}: a share from 0 to 1")
        if chosen.pause and not chosen.waves:
            raise ValueError("--pause is between waves: give --waves, too")
        Waves.of(annotations)
    except ValueError as error:
        print_error("cloudcore", printable(str(error)))
        return ExitCode.USAGE
    order = {
        **spec, **targets, "concurrency": max(1, chosen.concurrency), "failureTolerate": chosen.tolerate,
        "timeoutSeconds": chosen.timeout,
    }  # fmt: skip
    whole = {TEMPLATE: order} if kind is JobKind.IMAGE_PRE_PULL else order
    client = ControlClient(chosen.socket)
    if version:
        _check_served(client, version)
    return _make(client, kind, name, whole, annotations)


def _make(client: ControlClient, kind: JobKind, name: str, spec: JsonObject, annotations: dict[str, str]) -> int:
    metadata = {"name": name, "annotations": annotations}
    client.call("POST", _path(kind), {**_type_of(kind), "metadata": metadata, "spec": spec})
    print_lines([f"{kind} {name} is made; next: cloudcore upgrade status {name}"])
    return ExitCode.OK


def label_selector(text: str) -> JsonObject:
    """Return a selector of the command line as a LabelSelector. Raises ValueError."""
    from modules.apimachinery.selectors import read_requirements  # noqa: PLC0415 - as above

    expressions = [each for one in read_requirements(text) for each in _expressions(one)]
    return {"matchExpressions": expressions} if expressions else {}


def _expressions(one: Requirement) -> Iterator[JsonObject]:
    if one.above is not None or one.below is not None:
        raise ValueError(f"{one.key}: a LabelSelector cannot compare numbers")
    if one.is_refused:
        yield {"key": one.key, "operator": "DoesNotExist"}
    elif one.allowed is not None:
        yield {"key": one.key, "operator": "In", "values": sorted(one.allowed)}
    elif one.refused:
        yield {"key": one.key, "operator": "NotIn", "values": sorted(one.refused)}
    else:
        yield {"key": one.key, "operator": "Exists"}


def resume(chosen: argparse.Namespace) -> int:
    """Run `cloudcore upgrade resume`: the nodes that have not succeeded, in the order and waves of the job before."""
    from modules.apimachinery.node_job_kinds import JobKind  # noqa: PLC0415 - as above
    from modules.apimachinery.node_jobs import TEMPLATE  # noqa: PLC0415
    from modules.cloud.taskmanager.statuses import JobPhase, TaskPhase, read_status  # noqa: PLC0415
    from modules.cloud.taskmanager.waves import PAUSE, WAVES  # noqa: PLC0415
    from modules.insight.fleet.jobs import next_name  # noqa: PLC0415
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415

    client = ControlClient(chosen.socket)
    kind, found = _job(client, chosen.job)
    ended = read_status(found.get("status"))
    left = [task.node_name for task in ended.node_status if task.phase != TaskPhase.SUCCESSFUL]
    if ended.phase not in (JobPhase.COMPLETED, JobPhase.FAILURE):
        raise ControlError("cannot resume a job that goes on by itself", chosen.job, f"it is {ended.phase or 'new'}")
    if not left:
        print_lines([f"{kind} {printable(chosen.job)} has succeeded on all its nodes"])
        return ExitCode.OK
    spec = found["spec"][TEMPLATE] if kind is JobKind.IMAGE_PRE_PULL else found["spec"]
    order = {**{key: value for key, value in spec.items() if key != "labelSelector"}, "nodeNames": left}
    given = found["metadata"].get("annotations") or {}
    annotations = {key: str(given[key]) for key in (WAVES, PAUSE) if key in given}
    whole = {TEMPLATE: order} if kind is JobKind.IMAGE_PRE_PULL else order
    return _make(client, kind, next_name(chosen.job), whole, annotations)


def status(chosen: argparse.Namespace) -> int:
    """Run `cloudcore upgrade status`."""
    from modules.apimachinery.node_job_kinds import JobKind  # noqa: PLC0415 - as above
    from modules.processes.cloudcore.control_client import ControlClient  # noqa: PLC0415

    client = ControlClient(chosen.socket)
    here = {each.node for each in client.nodes()} | client.cloudcores().elsewhere().keys()
    if chosen.job:
        kind, found = _job(client, chosen.job)
        print_table(chosen.output, nodes_table(kind, found, here, time.time()))
        return ExitCode.OK
    jobs = [(kind, each) for kind in JobKind for each in _listed(client, kind)]
    print_table(chosen.output, jobs_table(jobs, here, time.time()))
    return ExitCode.OK


def jobs_table(jobs: Sequence[tuple[JobKind, JsonObject]], here: Collection[str], now: float) -> Table:
    """Return the table of jobs, the newest first.

    Args:
        jobs: with their kinds.
        here: nodes that are connected.
        now: seconds since 1970.
    """
    from modules.insight.fleet.jobs import job_row, jobs_of  # noqa: PLC0415 - as above

    rows = [
        (
            row.name, row.kind, row.phase or _NONE, f"{row.counts.done}/{row.counts.nodes}", str(row.counts.failed),
            str(row.counts.under_way),
            f"{row.counts.waiting} ({row.counts.away} away)" if row.counts.away else str(row.counts.waiting),
            _age(row.created, now), _cut(row.reason),
        )
        for row in jobs_of((job_row(kind, job, here) for kind, job in jobs), most=len(jobs)).rows
    ]  # fmt: skip
    return Table(_JOBS, rows, "There are no jobs of nodes: `cloudcore upgrade nodes` and `cloudcore prepull` make one.")


def nodes_table(kind: JobKind, job: JsonObject, here: Collection[str], now: float) -> Table:
    """Return the table of a job's nodes, and sentences about it and its waves (see `jobs_table`)."""
    from modules.insight.fleet.jobs import job_nodes, job_row, job_sentence, wave_sentence  # noqa: PLC0415 - as above

    row = job_row(kind, job, here)
    rows = [
        (
            each.node, str(each.wave or _NONE), each.state, each.step or _NONE, _age(each.since, now),
            each.before or _NONE, each.after or _NONE, _cut(each.reason),
        )
        for each in job_nodes(kind, job, here)
    ]  # fmt: skip
    remarks = [job_sentence(row), *map(wave_sentence, row.waves)]
    return Table(_NODES, rows, "The job has no nodes yet.", [printable(each) for each in remarks])


def _age(moment: float | None, now: float) -> str:
    return _NONE if moment is None else human_duration(int(max(0.0, now - math.floor(moment))))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _job(client: ControlClient, name: str) -> tuple[JobKind, JsonObject]:
    """Return a job and its kind. Raises ControlError."""
    from modules.apimachinery.node_job_kinds import JobKind  # noqa: PLC0415 - as above
    from modules.processes.cloudcore.control_client import message_in  # noqa: PLC0415

    for kind in JobKind:
        code, body = client.request("GET", _path(kind, name))
        if code == HTTPStatus.OK:
            return kind, decode_json(body)
        if code != HTTPStatus.NOT_FOUND:
            raise ControlError("cannot read the job of nodes", name, message_in(body))
    raise ControlError("there is no such job of nodes", name, "`cloudcore upgrade status` shows them")


def _listed(client: ControlClient, kind: JobKind) -> list[JsonObject]:
    found: list[JsonObject] = client.call("GET", _path(kind)).get("items") or []
    return found


def _path(kind: JobKind, name: str = "") -> str:
    from modules.cli.rest import object_path  # noqa: PLC0415 - as above
    from modules.cloud.jobs import JOBS  # noqa: PLC0415

    return object_path(JOBS[kind], name=name)


def _type_of(kind: JobKind) -> JsonObject:
    from modules.cloud.jobs import JOBS  # noqa: PLC0415 - as above

    return {"apiVersion": JOBS[kind].api_version, "kind": kind.value}

"""`why`: explains why a pod does not run, or how it came to run, and what to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from beehive.decoding import decode_json
from beehive.printable import printable
from modules.apimachinery.pods.objects import is_mirror
from modules.apimachinery.printing.ages import ago
from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.apimachinery.printing.terminal import print_json, print_lines
from modules.cli.errors import KubectlError, StatusError, UnreachableError, UsageError
from modules.kubectl import arguments
from modules.kubectl.resources import Listing, objects_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from modules.cli.parser import VerbParser
    from modules.insight.fleet.rows import NodeRow
    from modules.insight.why.facts import LastLines, NodeChain, PodFacts
    from modules.insight.why.pods import Answer
    from modules.insight.why.references import Missing, Reference
    from modules.kubectl.session import Session

_PODS: Final = ("pod", "pods", "po")
_NODE: Final = "edgecore"
_LEASES: Final = "kube-node-lease"
"""Annotation of a mirror pod, whose uid is another than the static pod's on the node."""
_MOST_OF_A_CHAIN: Final = 256 * 1024
"""Bytes of a node's answer."""
_CHANGES: Final = "/cloudcore/changes"
_BAD_REQUEST, _NOT_FOUND = 400, 404
_CAUSE: Final = "◆"
"""Marks the step that is the cause."""


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser, "pod NAME, pod/NAME, pod NAMESPACE/NAME")
    arguments.add_namespace(parser, all_too=False)
    parser.add_argument("-o", "--output", default="", choices=("", "json"), metavar="FORMAT", help="json")


def run(session: Session, chosen: Any) -> int:
    """Say why a pod does not run, or a workload lacks pods; return 1 when there is no such object."""
    from modules.insight.why.pods import explain  # noqa: PLC0415 - `add` imports nothing heavy

    kind, namespace, name = _named(session, chosen.words)
    now = time.time()
    if kind in _PODS:
        answer = explain(pod_facts(session, namespace, name, now))
    else:
        answer = _of_workload(session, kind, namespace, name, now)
    if chosen.output == "json":
        print_json(answer, indent=2)
    else:
        print_lines(_lines(answer, now))
    return 0


def _named(session: Session, words: list[str]) -> tuple[str, str, str]:
    """Return the kind, the namespace and the name of the object."""
    kind, *parts = "/".join(words).split("/")
    if kind and not parts and not any(each.is_called(kind) for each in session.discovery.all):
        return "pod", session.namespace, kind
    if len(parts) not in (1, 2) or not all(parts):
        command = f"{session.program} why pod"
        listed = f"`{session.program} get pods` lists them"
        raise UsageError(f"name one pod, or workload: `{command} NAME` or `{command} NAMESPACE/NAME`; {listed}")
    return (kind, session.namespace, parts[0]) if len(parts) == 1 else (kind, parts[0], parts[1])


def _of_workload(session: Session, word: str, namespace: str, name: str, now: float) -> Answer:
    """Return why a workload lacks pods; if it lacks none, the answer about its first pod that does not run."""
    import msgspec  # noqa: PLC0415 - as in `run`

    from modules.insight.fleet.lacks import WORKLOADS, lack_of  # noqa: PLC0415
    from modules.insight.fleet.rows import owner_of, pod_row  # noqa: PLC0415
    from modules.insight.why.pods import Answer, explain  # noqa: PLC0415
    from modules.kubectl.workload_events import refusal_of  # noqa: PLC0415

    resource = session.discovery.one(word)
    if resource.key_kind not in WORKLOADS.values():
        known = ", ".join(kind.lower() for kind in WORKLOADS.values())
        raise UsageError(f"`{session.program} why` knows pod, {known}, and not {word}")
    workload = session.client.get(resource.path(namespace, name))
    lack = lack_of(resource.kind, workload, lambda: refusal_of(session.client, resource.kind, workload))
    pods = objects_of(session, Listing(session.discovery.one("pods"), namespace))[0]
    owner = f"{resource.kind} {name}"
    mine = [pod_row(each) for each in pods if owner_of(each) == owner]
    troubled = [each for each in mine if each.is_troubled]
    if troubled and (lack is None or not lack.missing):  # a stopped rollout has its reason in a pod
        found = explain(pod_facts(session, namespace, troubled[0].name, now))
        begun = lack.words if lack is not None else f"{len(mine) - len(troubled)} of {len(mine)} pods of {owner} run"
        counted = f"{begun}. {found.sentence}"
        return msgspec.structs.replace(found, sentence=counted)
    if lack is None:
        run = f"{len(mine)} {'pod' if len(mine) == 1 else 'pods'}"
        text = f"runs: {run}" if mine else "has no pod, and nothing says that it lacks one"
        state = "runs" if mine else "unknown"
        return Answer(sentence=f"{namespace}/{name} {text}", state=state, steps=[], left_out=0, notes=[], remedy=[])
    return Answer(
        sentence=f"{lack.words}: {lack.why}", state="waits", steps=[], left_out=0, notes=[],
        remedy=[each for each in (lack.remedy(session.program),) if each],
    )  # fmt: skip


def not_known(node: str) -> NodeRow | None:  # noqa: ARG001 - of `pod_facts`
    """Return nothing about a node."""
    return None


def pod_facts(
    session: Session, namespace: str, name: str, now: float, known: Callable[[str], NodeRow | None] = not_known
) -> PodFacts:
    """Ask the server for the pod, its node, the objects that it needs, and its events.

    Args:
        session: has the server; of its lists, only this pod's are read, unless others have its ports.
        namespace: of the pod.
        name: of the pod.
        now: seconds since 1970.
        known: returns the row of a node; cloudcore is asked about an unknown one.

    Raises:
        KubectlError: there is no such pod, or no server answers.
    """
    from modules.apimachinery.printing.event_order import event_order  # noqa: PLC0415
    from modules.insight.fleet.states import UNLINKED  # noqa: PLC0415 - as in `run`
    from modules.insight.why.facts import NO_PORTS, PodFacts, condition, port_holders  # noqa: PLC0415
    from modules.insight.why.references import MAX_REFERENCES, SENT_TO_NODES, references_of  # noqa: PLC0415
    from modules.kubectl.describers.common import events_about  # noqa: PLC0415
    from modules.kubectl.node_links import own_remarks, row_of  # noqa: PLC0415

    pod = _pod(session, namespace, name)
    unread: list[str] = []
    missing: list[Missing] = []
    references = references_of(pod)
    if session.program == _NODE:
        references = [each for each in references if each.kind in SENT_TO_NODES]
    for reference in references[:MAX_REFERENCES]:
        missing += _missing(session, namespace, reference, unread)
    if len(references) > MAX_REFERENCES:
        unread.append(f"whether {len(references) - MAX_REFERENCES} more objects exist that the pod needs")
    bound = text_at(pod, "spec.nodeName")
    node, is_there = _get(session, "nodes", "", bound, unread) if bound else (None, True)
    row = None
    if session.program != _NODE and node is not None:
        row = known(bound) or row_of(session.client, bound, node, now)
    is_unready = node is not None and text_at(condition(node, "Ready"), "status") == "Unknown"
    is_away = is_unready if row is None else row.state in UNLINKED
    lease = _get(session, "leases", _LEASES, bound, [])[0] if is_away and row is None else None
    said = text_at(condition(pod, "PodScheduled"), "message")
    others = _pods(session, unread) if NO_PORTS in said and not bound else []
    return PodFacts(
        pod=pod,
        now=now,
        program=session.program,
        node=node,
        is_node_missing=not is_there,
        link=row,
        heard=text_at(lease or {}, "spec.renewTime"),
        remarks=own_remarks(session.client, now) if session.program == _NODE else (),
        is_stored=_is_stored(session, pod) if is_there and not is_away else None,
        port_holders=port_holders(pod, others),
        missing=missing,
        unread=unread,
        events=sorted(events_about(_events(session, namespace, name, unread), pod), key=event_order),
        chain=_chain(session, pod, unread) if is_there and not is_away else None,
        last_lines=_last_lines(session, pod, unread) if is_there and not is_away else None,
    )


def _pod(session: Session, namespace: str, name: str) -> JsonObject:
    """Return a pod; the error mentions a workload of that name: its pods may not have been made."""
    from modules.insight.fleet.lacks import WORKLOADS  # noqa: PLC0415 - as in `run`

    try:
        return session.client.get(session.discovery.one("pods").path(namespace, name))
    except StatusError as refusal:
        if not refusal.is_not_found or session.program == _NODE:
            raise
        for plural in WORKLOADS:
            if _get(session, plural, namespace, name, [])[0] is not None:
                command = f"{session.program} -n {namespace} why {plural.removesuffix('s')} {name}"
                raise KubectlError(f"{refusal.text}; there is a workload by that name: `{command}`") from refusal
        raise


def _chain(session: Session, pod: JsonObject, unread: list[str]) -> NodeChain | None:
    """Return the steps of a pod that its node has kept: the node's own, or over the tunnel to it."""
    import msgspec  # noqa: PLC0415 - as in `run`

    from modules.cli.rest import path_of  # noqa: PLC0415
    from modules.insight.why.facts import NodeChain  # noqa: PLC0415

    bound, uid = text_at(pod, "spec.nodeName"), text_at(pod, "metadata.uid")
    if not bound:
        return None
    way = () if session.program == _NODE else ("api", "v1", "nodes", bound, "proxy")
    path = path_of(*way, "edgecore", "chains", text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name"))
    try:
        chain = decode_json(session.client.raw("GET", path, most=_MOST_OF_A_CHAIN), NodeChain)
    except StatusError as error:
        if error.code != _NOT_FOUND:
            unread.append(f"the steps that node {bound} has kept: {error.text}")
        return None
    except UnreachableError:
        raise
    except (KubectlError, msgspec.MsgspecError, UnicodeError) as error:
        unread.append(f"the steps that node {bound} has kept: {error}")
        return None
    return chain if chain.uid == uid or is_mirror(pod) else None


def _last_lines(session: Session, pod: JsonObject, unread: list[str]) -> LastLines | None:
    """Return the end of the log of the container that ended badly last: its node keeps the log until the pod is
    removed, and leaves out the secrets that it knows.
    """
    from modules.cli.rest import path_of  # noqa: PLC0415 - as in `run`
    from modules.insight.why.last_lines import MOST_LINES, MOST_READ, ended_badly, last_lines  # noqa: PLC0415

    ended = ended_badly(pod)
    if ended is None:
        return None
    namespace, name = text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name")
    path = path_of("api", "v1", "namespaces", namespace, "pods", name, "log")
    query = [("container", ended.name), ("tailLines", str(2 * MOST_LINES)), ("limitBytes", str(MOST_READ))]
    query += [("redact", "true"), *([("previous", "true")] if ended.is_previous else ())]
    try:
        return last_lines(ended.name, session.client.raw("GET", path, query, most=MOST_READ))
    except UnreachableError:
        raise
    except KubectlError as error:
        is_gone = isinstance(error, StatusError) and error.code in (_BAD_REQUEST, _NOT_FOUND)
        said = error.text if isinstance(error, StatusError) else str(error)
        if not is_gone and not any(each.endswith(said) for each in unread):
            unread.append(f"the last lines of container {ended.name}: {said}")
        return None


def _is_stored(session: Session, pod: JsonObject) -> bool | None:
    """Return whether the node of a pod without a status has confirmed that it has it; None if that is not known."""
    import msgspec  # noqa: PLC0415 - as in `run`

    from modules.insight.why.facts import StoredCounts  # noqa: PLC0415

    if session.program == _NODE or not text_at(pod, "spec.nodeName") or text_at(pod, "status.startTime"):
        return None
    namespace, name = text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name")
    query = (("kind", "Pod"), ("namespace", namespace), ("name", name), ("limit", "1"))
    try:
        found = decode_json(session.client.raw("GET", _CHANGES, query, most=_MOST_OF_A_CHAIN), StoredCounts).writes
    except (KubectlError, msgspec.MsgspecError, UnicodeError):
        return None  # a cluster, or a user who may not see it
    return found[0].acknowledged > 0 if found and found[0].holders > 0 else None


def _missing(session: Session, namespace: str, reference: Reference, unread: list[str]) -> Iterator[Missing]:
    from modules.insight.why.references import missing_of  # noqa: PLC0415 - as in `run`

    obj, is_there = _get(session, reference.kind, namespace, reference.name, unread)
    found = missing_of(reference, obj) if obj is not None or not is_there else None
    if found is not None:
        yield found


def _get(session: Session, word: str, namespace: str, name: str, unread: list[str]) -> tuple[JsonObject | None, bool]:
    """Return an object, and whether it exists as far as is known; what cannot be read is noted."""
    try:
        resource = session.discovery.one(word.lower())
        return session.client.get(resource.path(namespace if resource.namespaced else "", name)), True
    except UnreachableError:
        raise
    except StatusError as error:
        if error.is_not_found:
            return None, False
        unread.append(f"{word} {name}: {error.text}")
    except KubectlError as error:
        unread.append(f"{word} {name}: {error.text}")
    return None, True


def _events(session: Session, namespace: str, name: str, unread: list[str]) -> list[JsonObject]:
    try:
        query = (("fieldSelector", f"involvedObject.name={name}"),)
        return objects_of(session, Listing(session.discovery.one("events"), namespace, query))[0]
    except UnreachableError:
        raise
    except KubectlError as error:
        unread.append(f"its events: {error.text}")
        return []


def _pods(session: Session, unread: list[str]) -> list[JsonObject]:
    try:
        return objects_of(session, Listing(session.discovery.one("pods"), ""))[0]
    except UnreachableError:
        raise
    except KubectlError as error:
        unread.append(f"which pods have its ports: {error.text}")
        return []


def _lines(answer: Answer, now: float) -> Iterator[str]:
    yield f"{answer.sentence}."
    yield from (f"({printable(note)})" for note in answer.notes)
    yield ""
    if answer.left_out:
        yield f"  {answer.left_out} earlier steps are left out"
    for step in answer.steps:
        mark = _CAUSE if step.is_cause else " "
        yield f"{mark} {ago(step.at, now):>9}  {step.who:<16} {step.text}"
    if answer.last_lines is not None:
        yield ""
        yield f"The last lines of container {answer.last_lines.container}:"
        yield from (f"  {printable(line)}" for line in answer.last_lines.lines)
    if answer.remedy:
        yield ""
        yield from (f"To do: {each}" for each in answer.remedy)

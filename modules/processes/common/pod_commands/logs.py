"""The command `logs`: prints or follows the logs of containers."""

import argparse
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.types import Pod, parse_time
from modules.apimachinery.types.times import TimeError
from modules.processes.common.durations import parse_duration
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient, remark, report_errors
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.target import container_of, pod_target

TAIL_OF_MANY: Final = 10
"""Lines of each log that a selector finds, unless `--tail` is given (kubectl's)."""

_LONGEST_LINE: Final = 64 * 1024
"""Bytes of a line with a prefix that are held before they are printed as a line of their own."""


class LogSource(NamedTuple):
    """The log of one container."""

    namespace: str
    pod: str
    container: str

    @property
    def prefix(self) -> bytes:
        """The text that `--prefix` puts before each line."""
        return f"[pod/{self.pod}/{self.container}] ".encode()


def logs(chosen: argparse.Namespace) -> int:
    """Print the logs."""
    with report_errors(chosen.program):
        query = wanted(chosen)
        node: NodeClient = chosen.connect(chosen)
        sources = _sources(node, chosen)
        if chosen.follow and len(sources) > chosen.max_log_requests:
            hint = f"--max-log-requests {len(sources)} allows it"
            raise NodeError(f"{len(sources)} logs are to be followed, at most {chosen.max_log_requests} may", "", hint)
        printer = LogPrinter(node, query, follow=chosen.follow, prefix=chosen.prefix, lenient=chosen.ignore_errors)
        if chosen.follow and len(sources) > 1:
            return printer.follow_all(sources)
        return printer.print_all(sources)


class LogPrinter:
    """A printer of logs, one after the other or several at a time.

    Args:
        node: the node.
        query: options of the requests.
        follow: whether the logs are followed.
        prefix: whether each line begins with its source.
        lenient: whether the other logs are printed where one cannot be read.
    """

    def __init__(
        self, node: NodeClient, query: Sequence[tuple[str, str]], *, follow: bool, prefix: bool, lenient: bool
    ) -> None:
        self._node = node
        self._query = query
        self._follow = follow
        self._prefix = prefix
        self._lenient = lenient
        self._lock = threading.Lock()
        self._problem: NodeError | OSError | None = None

    def print_all(self, sources: Iterable[LogSource]) -> int:
        """Print one log after the other; return the exit status. Raises NodeError."""
        for source in sources:
            try:
                self._print(source, whole_lines=self._prefix)
            except NodeError as error:
                if not self._lenient:
                    raise
                self._node.print_remark(f"error: {error}")
        return ExitCode.OK

    def follow_all(self, sources: Sequence[LogSource]) -> int:
        """Follow all logs together, until they have ended or one fails; return the exit status. Raises NodeError."""
        done = threading.Semaphore(0)
        for source in sources:
            threading.Thread(target=self._follow_one, args=(source, done), daemon=True).start()
        for _ in sources:
            done.acquire()
            if self._problem is not None:
                raise self._problem
        return ExitCode.OK

    def _follow_one(self, source: LogSource, done: threading.Semaphore) -> None:
        try:
            self._print(source, whole_lines=True)
        except NodeError as error:
            if self._lenient:
                self._node.print_remark(f"error: {error}")
            else:
                self._problem = error
        except OSError as error:
            self._problem = error
        finally:
            done.release()

    def _print(self, source: LogSource, *, whole_lines: bool) -> None:
        pieces = self._node.stream(self._node.stream_url("containerLogs", *source, self._query), patient=self._follow)
        prefix = source.prefix if self._prefix else b""
        for piece in with_prefix(pieces, prefix) if whole_lines else pieces:
            with self._lock:
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()


def with_prefix(pieces: Iterable[bytes], prefix: bytes) -> Iterator[bytes]:
    """Yield whole lines, each with the prefix; a line that is too long, or that ends with the log, ends there."""
    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        if len(held) > _LONGEST_LINE:
            lines.append(held)
            held = b""
        if lines:
            yield b"".join(prefix + line + b"\n" for line in lines)
    if held:
        yield prefix + held + b"\n"


def _sources(node: NodeClient, chosen: argparse.Namespace) -> list[LogSource]:
    """Return the logs that the command names. Raises NodeError."""
    if chosen.selector:
        if chosen.words:
            raise NodeError("a pod and a selector are named", hint="only one of them may be", usage=True)
        pods: Sequence[Pod] = node.pods(chosen.namespace or "default", chosen.selector)
        if not pods:
            node.print_remark(f"no pods in namespace {chosen.namespace or 'default'} have {chosen.selector}")
        return [source for pod in pods for source in _of_pod(pod, chosen, chosen.container)]
    if not 1 <= len(chosen.words) <= 2:
        raise NodeError("POD [CONTAINER] is wanted", hint="or -l LABELS", usage=True)
    word, *container = chosen.words
    if container and chosen.container:
        raise NodeError("a container is named twice", f"{container[0]} and -c {chosen.container}", usage=True)
    return _of_pod(node.pod(pod_target(word, chosen.namespace)), chosen, *container or [chosen.container])


def _of_pod(pod: Pod, chosen: argparse.Namespace, container: str) -> list[LogSource]:
    where = (pod.metadata.namespace, pod.metadata.name)
    if chosen.all_containers:
        if container:
            raise NodeError("--all-containers and a container are given", container, usage=True)
        return [LogSource(*where, each.name) for each in pod.spec.all_containers]
    found = container_of(pod, container)
    remark(found.remark)
    return [LogSource(*where, found.name)]


def wanted(chosen: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the query of the requests. Raises NodeError."""
    switches = (("follow", chosen.follow), ("previous", chosen.previous), ("timestamps", chosen.timestamps))
    query = [(name, "true") for name, on in switches if on]
    tail = TAIL_OF_MANY if chosen.tail is None and chosen.selector else chosen.tail
    if tail is not None and tail >= 0:
        query.append(("tailLines", str(tail)))
    if chosen.since and chosen.since_time:
        raise NodeError("--since and --since-time are given", hint="only one of them may be", usage=True)
    if chosen.since:
        query.append(_since(chosen.since))
    if chosen.since_time:
        query.append(("sinceTime", _time(chosen.since_time, "--since-time")))
    if chosen.limit_bytes is not None:
        query.append(("limitBytes", str(chosen.limit_bytes)))
    return query


def _since(text: str) -> tuple[str, str]:
    """Return an age as a query; a time is taken too."""
    try:
        return "sinceSeconds", str(max(1, round(parse_duration(text))))
    except ValueError:
        return "sinceTime", _time(text, "--since")


def _time(text: str, option: str) -> str:
    try:
        parse_time(text)
    except TimeError:
        hint = "an age as 10m, or a time as 2026-11-20T05:42:16Z"
        raise NodeError(f"cannot read {option}", text, hint, usage=True) from None
    return text

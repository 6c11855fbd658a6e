"""`/containerLogs/{namespace}/{pod}/{container}`: the log of a container, as a kubelet serves it."""

from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from beehive import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Reply, Stream, text
from edged.logs.reader import LogReader
from edged.server.pod_lookup import container_of_log, find_pod, runs
from edged.server.snapshots import Snapshots
from modules.apimachinery.pods.log_options import InvalidLogOptionsError, LogOptionError, log_options
from modules.apimachinery.types import Nanoseconds

_REDACT: Final = "redact"
"""Option of a log, beside a kubelet's: without secrets, and no more than `MOST_REDACTED`."""
MOST_REDACTED: Final = 64 * 1024
"""Bytes of a log without secrets: they are searched as a whole."""


class ContainerLogs:
    """Handler of container logs: streams the log file that the runtime names, with a kubelet's options."""

    def __init__(self, snapshots: Snapshots, clock: Clock) -> None:
        self._snapshots = snapshots
        self._clock = clock

    def __call__(self, request: Request) -> Reply:
        """Return the log as a stream. Raise HttpStatusError without a log."""
        _, namespace, name, container = request.parts
        try:
            options = log_options(request, Nanoseconds(self._clock.now_ns()))
        except (LogOptionError, InvalidLogOptionsError) as error:
            code = 400 if isinstance(error, LogOptionError) else 422
            raise HttpStatusError(code, error.attempt, error.on, error.hint) from error
        if request.flag(_REDACT):
            options = replace(options, follow=False, limit=min(options.limit or MOST_REDACTED, MOST_REDACTED))
        pod = find_pod(self._snapshots.pods, namespace, name)
        which = container_of_log(pod, container, previous=options.previous)
        uid = pod.metadata.uid
        with self._snapshots.calling() as runtime:
            path = runtime.container_status(which).status.log_path
        try:
            reader = LogReader(Path(path), options, ended=lambda: not runs(self._snapshots.pods, uid, container, which))
        except OSError as error:
            about = f"{container} of pod {namespace}/{name}"
            raise HttpStatusError(404, "the log cannot be read", about, f"{path}: {error.strerror}") from error
        if request.flag(_REDACT):
            with closing(reader):
                log = b"".join(reader.pieces(lambda _seconds: False))
            whole = log[: log.rfind(b"\n") + 1] if len(log) == options.limit else log  # a part of a secret is no secret
            return text(200, self._snapshots.without_secrets(whole.decode("utf-8", "replace")))
        return Stream("text/plain; charset=utf-8", lambda peer: reader.pieces(peer.gone_within), reader.close)

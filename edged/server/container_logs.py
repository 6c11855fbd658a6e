"""`/containerLogs/{namespace}/{pod}/{container}`: the log of a container, as a kubelet serves it."""

from pathlib import Path

from beehive import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Stream
from edged.logs.reader import LogReader
from edged.server.pod_lookup import container_of_log, find_pod, runs
from edged.server.snapshots import Snapshots
from modules.apimachinery.pods.log_options import InvalidLogOptionsError, LogOptionError, log_options
from modules.apimachinery.types import Nanoseconds


class ContainerLogs:
    """Handler of container logs: streams the log file that the runtime names, with a kubelet's options."""

    def __init__(self, snapshots: Snapshots, clock: Clock) -> None:
        self._snapshots = snapshots
        self._clock = clock

    def __call__(self, request: Request) -> Stream:
        """Return the log as a stream. Raise HttpStatusError without a log."""
        _, namespace, name, container = request.parts
        try:
            options = log_options(request, Nanoseconds(self._clock.now_ns()))
        except (LogOptionError, InvalidLogOptionsError) as error:
            code = 400 if isinstance(error, LogOptionError) else 422
            raise HttpStatusError(code, error.attempt, error.on, error.hint) from error
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
        return Stream("text/plain; charset=utf-8", lambda peer: reader.pieces(peer.gone_within), reader.close)

"""Starts containers under conmon, takes over an earlier edgecore's, and records how they end.

A start leaves its traces in this order: the mounted root file system and config.json; conmon's process; `run.json`;
the started container. An edgecore that is killed in between leaves a container that its successor either finds running,
or undoes: then it is created as before, and may be started again.
"""

import contextlib
import errno
import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from beehive.files.descriptors import is_readable
from beehive.files.durable import replace_soon
from beehive.files.reading import list_directory
from beehive.files.removal import remove_tree
from beehive.on_failure import on_failure
from modules.runtimes.engine.driver import EngineParts
from modules.runtimes.engine.errors import RequestRefusedError, RunFailedError, WrongStateError
from modules.runtimes.engine.records import Exit, lost
from modules.runtimes.engine.state import read_record
from modules.runtimes.oci.bundles import Bundles
from modules.runtimes.oci.crun import conmon as parents
from modules.runtimes.oci.crun.commands import kill_commands
from modules.runtimes.oci.crun.conmon import PERSIST, Conmon, Standard
from modules.runtimes.oci.crun.container_log import clear_way, has_open, log_at, make_log, writes_in
from modules.runtimes.oci.crun.runtime_command import CommandFailedError, RuntimeCommand
from modules.runtimes.oci.first_process import FirstProcess
from modules.runtimes.oci.model import ConmonEnd, OciContainer, OciRun
from modules.runtimes.shim.protocol import EXIT_RECORD, RUN_RECORD

_log = logging.getLogger(__name__)

START_ERROR_EXIT_CODE: Final = 128
"""Exit code of a container that could not be started, as containerd reports it."""

_KILLED: Final = 128 + signal.SIGKILL
_END_MILLISECONDS: Final = 15_000
"""For killed processes to end; only processes stuck in the kernel take longer."""
_CREATE_SECONDS: Final = 60.0
"""Seconds for the creation of a container that an earlier edgecore began."""
_LOOK_MILLISECONDS: Final = 10
_REOPEN_SECONDS: Final = 10.0
_REOPEN_LOOK_SECONDS: Final = 0.002


class ContainerProcesses:
    """The processes of all containers.

    A start is announced on the thread that starts, an end on the watcher's thread or on a thread that settles it.
    """

    def __init__(
        self,
        runtime: RuntimeCommand,
        conmon: Conmon,
        bundles: Bundles,
        parts: EngineParts[OciContainer],
    ) -> None:
        self._runtime = runtime
        self._conmon = conmon
        self._bundles = bundles
        self._journal = parts.state.journal
        self._watcher = parts.watcher
        self._clock = parts.clock
        self._announcer = parts.announcer

    def start(self, container: OciContainer) -> None:
        """Start a created container and return when its command runs. Raises RunFailedError: then it has ended."""
        try:
            self._start(container)
        except (RequestRefusedError, CommandFailedError, OSError) as error:
            reason = error.reason if isinstance(error, RequestRefusedError) else str(error)
            self._runtime.await_others(container.id)  # a killed conmon leaves its child
            self._undo(container.id, container.directory)
            self._record_exit(container, Exit(START_ERROR_EXIT_CODE, self._clock.now_ns(), "StartError", reason))
            self._announcer.stopped(container)
            raise RunFailedError(f"start container {container.id}", reason) from error
        except BaseException:  # a bug, or no memory: it has ended if its start was noted, or can be started again
            self._undo(container.id, container.directory)
            if container.first_process is not None:
                container.first_process.close()
            raise

    def _start(self, container: OciContainer) -> None:
        spec = self._bundles.make(container)
        log = make_log(Path(container.log_path)) if container.log_path else None
        config = container.config
        standard = Standard(config.tty, config.stdin, config.stdin_once)
        parent = self._conmon.create(container.id, container.directory, container.log_path, standard)
        with on_failure(lambda: os.close(parent.pidfd)):
            if log is not None and not has_open(parent.conmon, log):
                raise RunFailedError("write the log", f"something else is in the place of {container.log_path}")
            user = spec.user
            run = OciRun(parent.pid, self._clock.now_ns(), user.uid, user.gid, user.groups)
            _write_run(container, run)
            container.first_process = FirstProcess.of(parent.pid, container.id, parent.conmon)
            if container.first_process is not None:
                container.first_process.waits_for_start()
            self._runtime.start(container.id, has_hooks="poststart" in spec.config.get("hooks", {}))
        container.started(run)
        self._announcer.started(container)
        self._watch(container, parent.pidfd)
        self._bundles.started(container, spec)

    def adopt(self, container: OciContainer, *, rebooted: bool) -> None:
        """Find the state of a container of an earlier edgecore.

        With `rebooted`, the container is of an earlier boot of the machine: none of its processes can live. Raises
        OSError for a shortage of the process or machine: then nothing is known of the container.
        """
        container.run = read_record(container.directory / RUN_RECORD, OciRun)
        if (exit_ := read_record(container.directory / EXIT_RECORD, Exit)) is not None:
            container.finished(exit_)
        elif rebooted:
            if container.run is not None:
                self._record_exit(container, self._lost(container, "the machine was restarted"))
        elif container.run is None or self._runtime.is_created(container.id):
            self._undo(container.id, container.directory, search=True)
            container.run = None
        elif (pidfd := parents.find_conmon(container.directory)) is not None:
            conmon = parents.conmon_pid(container.directory)
            container.first_process = FirstProcess.of(container.run.pid, container.id, conmon)
            self._watch(container, pidfd)
        else:
            self._record_exit(container, self._end_of(container))
        if container.run is not None:
            kill_commands(container.directory, container.id)
            container.decided.set()

    def end_unknown(self, directory: Path) -> bool:
        """Kill the processes of a container without readable records; return whether all have ended."""
        return self._undo(directory.name, directory, search=True)

    def reopen_log(self, container: OciContainer, attempt: str) -> None:
        """Let conmon go on in a new log file. Raises OSError, RequestRefusedError."""
        clear_way(Path(container.log_path))
        try:
            parents.reopen_log(container.directory)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                raise WrongStateError(attempt, "it is just ending") from error
            if error.errno == errno.EAGAIN:
                raise RunFailedError(attempt, "conmon does not read its commands") from error
            raise
        self._await_log(container, attempt)

    def _await_log(self, container: OciContainer, attempt: str) -> None:
        """Wait until conmon, which does not answer, writes to the new file. A container whose conmon has left the
        directory of the log is killed: its output would go wherever a link leads.
        """
        deadline = self._clock.monotonic() + _REOPEN_SECONDS
        path, conmon = Path(container.log_path), parents.conmon_pid(container.directory)
        while conmon is None or (log := log_at(path)) is None or not has_open(conmon, log):
            if container.ended.wait(_REOPEN_LOOK_SECONDS):
                raise WrongStateError(attempt, "it is just ending")
            if self._clock.monotonic() > deadline:
                if conmon is None or writes_in(conmon, path.parent):
                    raise RunFailedError(attempt, "conmon does not make the new file")
                if container.first_process is not None:
                    container.first_process.send(signal.SIGKILL)
                raise RunFailedError(attempt, "something else is in its place, and the container is killed")

    def remove(self, container: OciContainer) -> None:
        """Remove the mounts and states of an ended container outside its directory. Raises RunFailedError."""
        if not self._undo(container.id, container.directory, is_removed=True):
            raise RunFailedError(
                f"remove container {container.id}", "something of it resists", "edgecore's log says what"
            )
        self._bundles.forget(container)

    def _watch(self, container: OciContainer, pidfd: int) -> None:
        self._watcher.add(ConmonEnd(pidfd, partial(self._conmon_gone, container)))

    def _conmon_gone(self, container: OciContainer) -> None:
        if container.exit is None:
            self._record_exit(container, self._end_of(container))
            self._announcer.stopped(container)

    def _end_of(self, container: OciContainer) -> Exit:
        """Return the exit of a container without a living conmon, after killing its remaining processes."""
        ended = parents.ended(container.directory)
        if ended is None:
            if container.first_process is not None:
                container.first_process.send(signal.SIGKILL)
            with contextlib.suppress(CommandFailedError):
                self._runtime.delete(container.id)
            return self._lost(container, "its conmon was killed")
        if not container.has_own_processes:
            with contextlib.suppress(CommandFailedError):
                self._runtime.kill_all(container.id)
        is_oom = ended.code == _KILLED and (ended.out_of_memory or _ran_out_of_memory(container))
        reason = "OOMKilled" if is_oom else "Error" if ended.code else "Completed"
        started_at = container.run.started_at if container.run is not None else 0  # a file's time may be 4 ms too early
        return Exit(ended.code, max(ended.at_ns, started_at), reason, "")

    def _lost(self, container: OciContainer, why: str) -> Exit:
        _log.warning("container ended unseen: %s", why, extra={"container": container.id})
        return lost(self._clock.now_ns(), f"{why}; its exit code is not known")

    def _record_exit(self, container: OciContainer, exit_: Exit) -> None:
        with contextlib.suppress(OSError):  # a full disk; the next edgecore comes to the same conclusion
            self._journal.write(container.directory / EXIT_RECORD, msgspec.json.encode(exit_))
            self._journal.flush()
        if container.first_process is not None:
            container.first_process.close()
        container.finished(exit_)

    def _undo(self, container_id: str, directory: Path, *, search: bool = False, is_removed: bool = False) -> bool:
        """Remove all traces of a start; return whether that was possible.

        With `search`, an edgecore that was killed may have started a conmon that has not written its process id. With
        `is_removed`, what conmon and edgecore have written stays: the whole directory is removed next.
        """
        pidfd = None
        try:
            pidfd = _settled_conmon(directory, search=search)
            self._runtime.delete(container_id)
            if pidfd is not None and not is_readable(pidfd, _END_MILLISECONDS):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            self._bundles.unmount(directory)
            if not is_removed:
                (directory / RUN_RECORD).unlink(missing_ok=True)
                for each in list_directory(directory / PERSIST):
                    remove_tree(each)
        except (CommandFailedError, RequestRefusedError, OSError) as error:
            _log.error("a container cannot be removed: %s", error, extra={"container": container_id})
            return False
        finally:
            if pidfd is not None:
                os.close(pidfd)
        return True


def _write_run(container: OciContainer, run: OciRun) -> None:
    replace_soon(container.directory / RUN_RECORD, msgspec.json.encode(run))


def _settled_conmon(directory: Path, *, search: bool) -> int | None:
    """Return a descriptor of the conmon of a container that is no longer being created; None without one."""
    pidfd = parents.find_conmon(directory)
    if pidfd is None and search:
        pidfd = parents.search_conmon(directory)
    while pidfd is not None:
        for _ in range(int(_CREATE_SECONDS * 1000 / _LOOK_MILLISECONDS)):
            if parents.init_pid(directory) is not None:
                return pidfd
            if is_readable(pidfd, _LOOK_MILLISECONDS):
                break
        else:
            return pidfd
        os.close(pidfd)
        pidfd = parents.find_conmon(directory)
    return None


def _ran_out_of_memory(container: OciContainer) -> bool:
    """Return whether the kernel counts that it has killed a process of a container for its memory: on control groups
    v1, conmon may see the end before it is told.
    """
    return container.first_process is not None and container.first_process.ran_out_of_memory()

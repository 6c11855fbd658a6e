"""The module `control`."""

import logging
import queue
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName, Operation
from edged.server.errors import ServerError
from edged.server.listening import accept_connection, listen_unix
from modules.cloud.apiserver import commands
from modules.cloud.apiserver.commands import CommandItem, Get, ObjectChanged, Verb
from modules.cloud.apiserver.errors import ApiError
from modules.cloud.apiserver.kinds import kind_called
from modules.cloud.refusals import Refusals
from modules.processes.cloudcore.framing import (
    METRICS,
    TOKEN,
    ControlError,
    ControlReply,
    ControlRequest,
    receive_frame,
    send_frame,
)
from modules.processes.cloudcore.metrics import exposition

_log = logging.getLogger(__name__)
_COMMAND_TIMEOUT = 30.0
"""Seconds for edgecontroller's reply to a command."""
_WATCH = "watch"
_REGISTRAR = "registrar"
_COMMANDS = (Verb.APPLY, Verb.GET, Verb.DELETE)
_CHANGES_WAITING = 4096
_CLIENT_CHECK_PERIOD = 1.0
"""Seconds between two checks whether a watching client is still connected."""

_Changes = queue.Queue[ObjectChanged | None]


class Control(Module):
    """Serves kubectl's verbs over a unix socket, for `cloudcore apply|get|delete|token|metrics`.

    One thread accepts, and one serves each client, outside the actor model, with blocking reads; clients are few and
    local. A client's thread may wait for edgecontroller's reply, as no module waits for the thread. The actor only
    passes changes to watching clients, through bounded queues; a client that reads too slowly is disconnected.

    Args:
        path: the socket's path; a stale socket is replaced.
        refusals: counts of refused requests, for `metrics`.
    """

    name: ClassVar[str] = commands.SOURCE
    group: ClassVar[str] = commands.SOURCE

    def __init__(self, path: Path, refusals: Refusals) -> None:
        super().__init__()
        self._path = path
        self._refusals = refusals
        self._lock = threading.Lock()
        self._watching: list[_Changes] = []
        self._clients: set[socket.socket] = set()
        self._socket: socket.socket | None = None

    def on_start(self) -> None:
        """Starts to listen.

        Raises:
            ControlError: another process listens on the path, or it cannot be used.
        """
        self._socket = listening_socket(self._path)
        threading.Thread(target=self._accept, args=(self._socket,), name="control/accept", daemon=True).start()

    def on_stop(self) -> None:
        """Closes the socket and all connections."""
        self._close()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Closes the socket and all connections."""
        self._close()
        super().on_failure(exception_type, exception_value, traceback)

    @handles(None, Verb.CHANGED, source=ModuleName.EDGECONTROLLER)
    def on_change(self, message: Message) -> None:
        """Passes a change of an object to the watching clients."""
        changed = message.content_as(ObjectChanged)
        with self._lock:
            for changes in list(self._watching):
                try:
                    changes.put_nowait(changed)
                except queue.Full:
                    self._watching.remove(changes)

    def _close(self) -> None:
        listening, self._socket = self._socket, None
        if listening is None:
            return
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        self._path.unlink(missing_ok=True)
        with self._lock:
            for changes in self._watching:
                with suppress(queue.Full):  # its client does not read, and ends with its connection
                    changes.put_nowait(None)
            for client in self._clients:
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        while (client := accept_connection(listening)) is not None:
            with self._lock:
                self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), name="control/client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            call = receive_frame(client, ControlRequest)
            if call is not None:
                self._carry_out(client, call)
        except (OSError, BeehiveError) as error:
            _log.info("a client of the control socket: %s", error)
        finally:
            with self._lock:
                self._clients.discard(client)
            client.close()

    def _carry_out(self, client: socket.socket, call: ControlRequest) -> None:
        if call.verb == _WATCH:
            self._watch(client, call.body)
        elif call.verb == TOKEN:
            send_frame(client, self._make_token(call.body))
        elif call.verb == METRICS:
            send_frame(client, ControlReply(metrics=exposition(self.hive, self._refusals)))
        elif call.verb in _COMMANDS:
            send_frame(client, self._ask(call.verb, call.body))
        else:
            send_frame(client, ControlReply(error=f"unknown verb {call.verb[:50]!r}"))

    def _ask(self, verb: str, body: dict[str, Any]) -> ControlReply:
        request = self.message(commands.RESOURCE, verb, body)
        try:
            answer = self.hive.request(ModuleName.EDGECONTROLLER, request, _COMMAND_TIMEOUT).get()
            return ControlReply(items=answer.content_as(commands.CommandReply).items)
        except BeehiveError as error:
            return ControlReply(error=str(error))

    def _make_token(self, body: dict[str, Any]) -> ControlReply:
        """Returns a token of the module `registrar`, which exists with `--tls` only."""
        if not self.hive.members(_REGISTRAR):
            return ControlReply(error="there are no tokens without TLS: start `cloudcore run` with --tls")
        request = self.message(_REGISTRAR, TOKEN, body)
        try:
            answer = self.hive.request(_REGISTRAR, request, _COMMAND_TIMEOUT).get()
            if answer.route.operation == Operation.ERROR:
                return ControlReply(error=answer.content_as(str))
            return ControlReply(token=answer.content_as(str))
        except BeehiveError as error:
            return ControlReply(error=str(error))

    def _watch(self, client: socket.socket, body: dict[str, Any]) -> None:
        """Sends the existing objects, then each change, until the client disconnects."""
        changes: _Changes = queue.Queue(_CHANGES_WAITING)
        with self._lock:
            self._watching.append(changes)
        try:
            first = self._ask(Verb.GET, body)
            seen = 0
            for item in first.items:
                seen = max(seen, _version(item.object or {}))
                send_frame(client, ControlReply(items=[item], change="ADDED" if item.object else ""))
            if first.error:
                send_frame(client, first)
            elif not any(item.error for item in first.items):
                self._follow(client, changes, body, seen)
        finally:
            with self._lock:
                if changes in self._watching:
                    self._watching.remove(changes)

    def _follow(self, client: socket.socket, changes: _Changes, body: dict[str, Any], seen: int) -> None:
        wanted = _Filter(body)
        while changes in self._watching:
            try:
                changed = changes.get(timeout=_CLIENT_CHECK_PERIOD)
            except queue.Empty:
                if _is_gone(client):
                    return
                continue
            if changed is None:
                return
            if _version(changed.object) > seen and wanted.matches(changed.object):
                send_frame(client, ControlReply(items=[CommandItem(changed.object)], change=changed.change))


class _Filter:
    """The selection of a watch."""

    def __init__(self, body: dict[str, Any]) -> None:
        try:
            get = msgspec.convert(body, Get)
            self._kind = kind_called(get.kind)
        except (ApiError, msgspec.ValidationError) as error:
            raise ControlError("cannot watch", str(body)[:200], str(error)) from error
        self._name = get.name
        self._namespace = get.namespace if self._kind.namespaced else None

    def matches(self, obj: dict[str, Any]) -> bool:
        meta = obj["metadata"]
        return (
            obj["kind"] == self._kind.name
            and self._name in ("", meta["name"])
            and self._namespace in (None, meta.get("namespace"))
        )


def listening_socket(path: Path) -> socket.socket:
    """Returns a listening unix socket to which only this user can connect.

    Raises:
        ControlError: another process listens on the path, or it cannot be used.
    """
    try:
        if path.is_socket():
            _check_stale(path)
        return listen_unix(path, "--socket")
    except ServerError as error:
        raise ControlError("cannot listen on the control socket", str(path), error.hint) from error
    except OSError as error:
        raise ControlError("cannot listen on the control socket", str(path), str(error.strerror)) from error


def _check_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise ControlError("cannot listen on the control socket", str(path), "another cloudcore is running there")


def _is_gone(client: socket.socket) -> bool:
    try:
        return client.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _version(obj: dict[str, Any]) -> int:
    return int((obj.get("metadata") or {}).get("resourceVersion") or 0)

"""Requests of threads that are not actors, such as the threads of a module's HTTP server."""

import threading

from beehive.errors import RequestError
from beehive.message import Message
from beehive.module import Module


class ThreadRequests:
    """The requests of a module's threads. When the module ends, waiting requests are ended too: otherwise their threads
    would delay the module's end, which waits for them.

    Args:
        module: owns the threads.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._why = ""

    def ask(self, destination: str, message: Message, seconds: float) -> Message:
        """Send a request and return the answer. Blocks; may be called on any thread except the module's.

        Raises:
            RequestError: no answer came in time, or the module has ended.
        """
        with self._lock:
            if self._why:
                raise RequestError("ask", self._why)
            self._waiting.add(message.id)
        try:
            future = self._module.hive.request(destination, message, seconds)
            self._end_if_over(message.id)
            answer: Message = future.get()
            return answer
        finally:
            with self._lock:
                self._waiting.discard(message.id)

    def end_all(self, why: str) -> None:
        """End the waiting requests, and refuse later ones."""
        with self._lock:
            self._why = why
            waiting = list(self._waiting)
        for each in waiting:
            self._end_if_over(each)

    def _end_if_over(self, message_id: str) -> None:
        """End a request after `end_all`, which may have come before it was there to be ended."""
        if self._why:
            self._module.hive.pending_requests.cancel(message_id, RequestError("ask", self._why))

"""A procedure of API calls, whether their answers come at once or later."""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from modules.apimachinery.api_errors import RefusedError
from modules.cloud.client.calls import Answered, ApiCall, ApiResult, Perform
from modules.cloud.edgecontroller.upstream.requests import Steps

T = TypeVar("T")


class Procedure(Generic[T]):
    """Runs `Steps`: makes each call, and goes on with its answer.

    Args:
        steps: the procedure.
        perform: makes a call.
        finished: called with the result. Exceptions of the steps or of this function go to the caller of `start`, or to
            `later`.
        later: called with the rest of the procedure when an answer comes after `perform` has returned.
    """

    def __init__(
        self,
        steps: Steps[T],
        perform: Perform,
        finished: Callable[[T], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._steps = steps
        self._perform = perform
        self._finished = finished
        self._later = later

    def start(self) -> None:
        """Begins."""
        self._run(lambda: next(self._steps))

    def _run(self, resume: Callable[[], ApiCall]) -> None:
        while True:
            try:
                call = resume()
            except StopIteration as end:
                self._finished(end.value)
                return
            answer = _Answer(lambda result: self._later(partial(self._run, partial(self._resumed, result))))
            self._perform(call, answer)
            if answer.result is None:
                answer.is_late = True
                return
            resume = partial(self._resumed, answer.result)

    def _resumed(self, result: ApiResult) -> ApiCall:
        if result.refusal is not None:
            return self._steps.throw(RefusedError(result.refusal))
        return self._steps.send(result.object or {})


class _Answer:
    """Keeps a result that comes at once, and passes on one that comes later."""

    def __init__(self, later: Answered) -> None:
        self.result: ApiResult | None = None
        self.is_late = False
        self._later = later

    def __call__(self, result: ApiResult) -> None:
        if self.is_late:
            self._later(result)
        else:
            self.result = result

"""Which key is due when."""

from collections.abc import Callable

import pytest

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.controllers.work_queue import WorkQueue

KEY = ObjectKey("Pod", "default", "web")


@pytest.mark.parametrize("pauses", [lambda queue: queue.pause(KEY, 60.0), lambda queue: queue.failed(KEY, 50.0)])
@pytest.mark.parametrize("ends", [WorkQueue.succeeded, WorkQueue.forget])
def test_a_key_is_due_after_its_pause_or_at_once_when_that_has_ended(
    pauses: Callable[[WorkQueue], object], ends: Callable[[WorkQueue, ObjectKey], None]
) -> None:
    queue = WorkQueue()
    pauses(queue)
    queue.add(KEY)
    assert queue.get(50.0) is None
    ends(queue, KEY)
    queue.add(KEY)
    assert queue.get(50.0) == KEY
    pauses(queue)
    assert queue.get(1000.0) == KEY
    queue.add(KEY)
    assert queue.get(1000.0) == KEY

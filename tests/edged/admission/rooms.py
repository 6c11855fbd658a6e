"""The room that pods take."""

from edged.pods.model import PodUid
from edged.pods.taken_room import TakenRoom, demand_of
from modules.apimachinery.types import Pod


def taken_by(*pods: Pod) -> TakenRoom:
    """The room that some pods take."""
    room = TakenRoom()
    for number, pod in enumerate(pods):
        room.put(PodUid(str(number)), demand_of(pod))
    return room

"""beehive: the message bus. Modules are actors, what crosses their borders is a message. It knows nothing of
Kubernetes.

Start reading at `message`, `module` and `hive`. `beehive.testing` has one module alone in virtual time,
`beehive.simulation` the second runtime, `beehive.metrics` the Prometheus tap, `beehive.files` the rules for files that
are kept and trees that others have made; they are imported only where they are used.
"""

from beehive.actor import Actor
from beehive.clock import Clock, RealClock, Timer
from beehive.codec import decode, encode
from beehive.delivery import DropReason, Kind, Outcome, Record, Tap, Way
from beehive.errors import (
    BeehiveError,
    ContentError,
    FrameError,
    RequestError,
    RequestTimeoutError,
    ResourceError,
)
from beehive.handlers import handles
from beehive.hive import Hive
from beehive.message import Header, Message, Route
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation, ResourceType, Source
from beehive.resource import Form, Resource, Side
from beehive.runtime import Runtime, Threads
from beehive.slot import Readiness, State

__all__ = [
    "Actor",
    "BeehiveError",
    "Clock",
    "ContentError",
    "DropReason",
    "Form",
    "FrameError",
    "Group",
    "Header",
    "Hive",
    "Kind",
    "Message",
    "Module",
    "ModuleName",
    "Operation",
    "Outcome",
    "Readiness",
    "RealClock",
    "Record",
    "RequestError",
    "RequestTimeoutError",
    "Resource",
    "ResourceError",
    "ResourceType",
    "Route",
    "Runtime",
    "Side",
    "Source",
    "State",
    "Tap",
    "Threads",
    "Timer",
    "Way",
    "decode",
    "encode",
    "handles",
]

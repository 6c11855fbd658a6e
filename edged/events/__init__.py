"""Events of pods and of the node, as `kubectl describe` shows them.

Any code calls `EventRecorder.record`, on any thread. `reporter` combines many occurrences into
few events, stores and sends them.
"""

from edged.events.model import EventType, Occurrence
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder

__all__ = ["EventRecorder", "EventType", "Occurrence", "Reason"]

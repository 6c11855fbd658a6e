"""Events: what happened to pods and to the node, as `kubectl describe` shows it.

Whoever sees something calls `EventRecorder.record`, on whatever thread it is. `correlate` makes few events of many
occurrences; `reporter` has them stored and sent.
"""

from edged.events.model import EventType, Occurrence
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder

__all__ = ["EventRecorder", "EventType", "Occurrence", "Reason"]

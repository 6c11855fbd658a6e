"""Keeps compiled seccomp filters for later containers with an equal profile.

When crun creates a container, libseccomp spends more than half of the processor time on compiling the profile
RuntimeDefault. crun stores the compiled filter in its directory of the container, and it accepts a compiled filter in
the annotation `run.oci.seccomp_bpf_data` (crun(1)). runc stores none. config.json still contains the profile, because
crun reads the profile's flags, and because a crun that does not know the annotation compiles the profile. Filters stay
in memory only: after edgecore restarts, the installed libseccomp compiles each profile again for its first container.
"""

import base64
import hashlib
import json
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from beehive.files.reading import read_file
from modules.runtimes.oci.spec import Json

ANNOTATION: Final = "run.oci.seccomp_bpf_data"

_FILE: Final = "seccomp.bpf"
_INSTRUCTION_BYTES: Final = 8
_MOST_BYTES: Final = 4096 * _INSTRUCTION_BYTES
"""The kernel's limit (BPF_MAXINSNS)."""
_MOST_PROFILES: Final = 8
"""Number of filters that are kept; the least recently used filter goes first."""
_LISTENER: Final = "listenerPath"


class SeccompPrograms:
    """The filters of started containers, stored and added to the configurations of new containers.

    Args:
        states: crun's directory; it contains a directory for each container.
    """

    def __init__(self, states: Path) -> None:
        self._states = states
        self._lock = threading.Lock()
        self._programs: OrderedDict[bytes, str] = OrderedDict()

    def applied(self, config: Json) -> Json:
        """Return a config.json with the annotation, if the filter of its profile is known."""
        key = _key(config)
        with self._lock:
            if key is None or key not in self._programs:
                return config
            self._programs.move_to_end(key)
            program = self._programs[key]
        return {**config, "annotations": {**config.get("annotations", {}), ANNOTATION: program}}

    def learn(self, container_id: str, config: Json) -> None:
        """Keep the filter of a started container. The kernel has accepted this filter."""
        key = _key(config)
        if key is None or key in self._programs:
            return
        try:
            program = read_file(self._states / container_id / _FILE, _MOST_BYTES)
        except OSError:
            return
        if not program or len(program) % _INSTRUCTION_BYTES:
            return
        with self._lock:
            self._programs[key] = base64.b64encode(program).decode("ascii")
            while len(self._programs) > _MOST_PROFILES:
                self._programs.popitem(last=False)


def _key(config: Json) -> bytes | None:
    """Return a hash of the profile. Return None if there is no profile, or if a program listens to its calls."""
    profile = config["linux"].get("seccomp")
    if profile is None or _LISTENER in profile:
        return None
    return hashlib.sha256(json.dumps(profile, sort_keys=True).encode()).digest()

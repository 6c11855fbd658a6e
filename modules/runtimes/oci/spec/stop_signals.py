"""The signal that asks a container to end."""

import signal
from typing import Final

from modules.runtimes.oci.spec.model import ImageDefaults
from protos.cri.v1 import api_pb2 as cri

_ALIASES: Final = {"SIGCLD": "SIGCHLD", "SIGIOT": "SIGABRT", "SIGPOLL": "SIGIO"}
_LAST: Final = 64


def stop_signal(config: cri.ContainerConfig, image: ImageDefaults) -> int:
    """Return the signal's number: the pod's, the image's if it is one, SIGTERM."""
    asked = ""
    if config.stop_signal != cri.SIGNAL_RUNTIME_DEFAULT and config.stop_signal in cri.Signal.values():
        asked = cri.Signal.Name(config.stop_signal).removeprefix("SIGNAL_")
    return _number(asked.replace("MINUS", "-").replace("PLUS", "+")) or _number(image.stop_signal) or signal.SIGTERM


def _number(text: str) -> int:
    """Return the number of `SIGTERM`, `TERM`, `15` or `SIGRTMIN+3`; 0 if it is no signal."""
    if text.isascii() and text.isdecimal():
        return int(text) if len(text) < 3 and int(text) <= _LAST else 0
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    base = name[: len("SIGRTMIN")]
    offset = name[len("SIGRTMIN") :]
    if base in ("SIGRTMIN", "SIGRTMAX"):
        return _real_time(base, offset)
    try:
        return int(signal.Signals[_ALIASES.get(name, name)])
    except KeyError:
        return 0


def _real_time(base: str, offset: str) -> int:
    sign, digits = offset[:1], offset[1:]
    is_offset = sign == ("+" if base == "SIGRTMIN" else "-") and digits.isascii() and digits.isdecimal()
    if offset and not (is_offset and len(digits) < 3):
        return 0
    number = int(signal.Signals[base]) + int(offset or 0)
    return number if signal.SIGRTMIN <= number <= signal.SIGRTMAX else 0

"""Metrics from the processes of a container: descriptors, sockets, limits."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from modules.runtimes.oci.metrics.descriptors import Sample

_MOST_PROCESSES: Final = 4096
_MOST_LINKS: Final = 16_384
"""Descriptors of a container that are looked at for sockets; more are counted only."""
_OPEN_FILES: Final = "Max open files"


def process_samples(processes: Sequence[int]) -> Iterator[Sample]:
    """Yield the metrics of processes; a process that has ended meanwhile has no descriptors and sockets."""
    descriptors, sockets = _descriptors(processes[:_MOST_PROCESSES])
    yield Sample("container_processes", len(processes))
    yield Sample("container_file_descriptors", descriptors)
    yield Sample("container_sockets", sockets)


def limit_samples(process: int) -> Iterator[Sample]:
    """Yield the soft limits of a process; -1 (unlimited) counts as 0."""
    try:
        lines = Path(f"/proc/{process}/limits").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith(_OPEN_FILES):
            soft = line.removeprefix(_OPEN_FILES).split()[0]
            yield Sample("container_ulimits_soft", int(soft) if soft.isdecimal() else 0, ("max_open_files",))


def _descriptors(processes: Sequence[int]) -> tuple[int, int]:
    descriptors = sockets = 0
    for process in processes:
        directory = f"/proc/{process}/fd"
        try:
            names = os.listdir(directory)  # noqa: PTH208
        except OSError:
            continue
        looked_at = max(0, _MOST_LINKS - descriptors)
        sockets += sum(_is_socket(f"{directory}/{name}") for name in names[:looked_at])
        descriptors += len(names)
    return descriptors, sockets


def _is_socket(path: str) -> bool:
    try:
        return os.readlink(path).startswith("socket:")  # noqa: PTH115
    except OSError:
        return False

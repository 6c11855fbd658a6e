"""Samples with a time, in Prometheus' text."""

from collections.abc import Iterable, Mapping

from modules.apimachinery.types import parse_time

TEXT = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[str, dict[str, str], float, str]
"""Name, labels, value, and time in milliseconds (may be empty)."""


def prometheus_text(names: Mapping[str, tuple[str, str]], samples: Iterable[Sample]) -> str:
    """Return the text.

    Args:
        names: type and explanation of each name, in order; names without samples are explained, too.
        samples: in any order; samples of one name keep their order.
    """
    of_name: dict[str, list[Sample]] = {name: [] for name in names}
    for sample in samples:
        of_name[sample[0]].append(sample)
    lines = []
    for name, (kind, explanation) in names.items():
        lines += [f"# HELP {name} {explanation}", f"# TYPE {name} {kind}"]
        lines += [_line(*sample) for sample in of_name[name]]
    return "\n".join(lines) + "\n"


def milliseconds(time: str) -> str:
    """Return a time as Prometheus writes it."""
    return str(parse_time(time) // 1_000_000)


def _line(name: str, labels: dict[str, str], value: float, time: str) -> str:
    inside = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
    return f"{name}{'{' + inside + '}' if inside else ''} {value:.12g} {time}".rstrip()

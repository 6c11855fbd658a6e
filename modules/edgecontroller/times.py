"""Kubernetes' way of writing moments (metav1.Time): RFC 3339 in UTC, whole seconds."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as metav1.Time prints them; fractions are cut off."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 moment; None when it is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None

"""How often something may be done: a token bucket. KubeEdge's edgehub holds its messages to one (messageQPS,
messageBurst), a kubelet its events and image pulls.
"""


class TokenBucket:
    """Tokens come at `rate` a second and at most `burst` are kept; it begins full.

    Args:
        rate: tokens a second; 0 means that nothing is ever held back.
        burst: tokens that may be taken at once; less than one counts as one, or there would never be any.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._tokens = self._burst
        self._seen: float | None = None

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until one is there; `now` is monotonic."""
        if self._rate <= 0:
            return 0.0
        if self._seen is not None and now > self._seen:
            self._tokens = min(self._burst, self._tokens + (now - self._seen) * self._rate)
        self._seen = now
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate

"""A token bucket, as KubeEdge's edgehub limits its messages with (messageQPS, messageBurst) and a kubelet its events
and image pulls.
"""


class TokenBucket:
    """A rate limit: the bucket gains `rate` tokens a second and holds `burst` at most; it begins full.

    Args:
        rate: tokens a second; 0 is unlimited.
        burst: tokens that may be taken at once; less than one counts as one, since no token would ever be there.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._tokens = self._burst
        self._seen: float | None = None

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until the next token; `now` is in monotonic seconds."""
        if self._rate <= 0:
            return 0.0
        if self._seen is not None and now > self._seen:
            self._tokens = min(self._burst, self._tokens + (now - self._seen) * self._rate)
        self._seen = now
        if self._tokens >= 1.0 - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate

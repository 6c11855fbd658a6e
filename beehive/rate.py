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

    def take(self, now: float, *, only_if_full: bool = False) -> float:
        """Take a token and return 0, or return the seconds until the next token.

        Args:
            now: in monotonic seconds.
            only_if_full: take it from a full bucket only, so that whoever comes next finds the whole burst but one.
        """
        if self._rate <= 0:
            return 0.0
        if self._seen is not None and now > self._seen:
            self._tokens = min(self._burst, self._tokens + (now - self._seen) * self._rate)
        self._seen = now
        needed = self._burst if only_if_full else 1.0
        if self._tokens >= needed - 1e-9:
            self._tokens -= 1.0
            return 0.0
        return (needed - self._tokens) / self._rate

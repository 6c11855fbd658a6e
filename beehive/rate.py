"""A token bucket, as KubeEdge's edgehub limits its messages with (messageQPS, messageBurst) and a kubelet its events
and image pulls.
"""


class TokenBucket:
    """A rate limit: the bucket gains `rate` tokens a second and holds `burst` at most; it begins full.

    Args:
        rate: tokens a second; 0 is unlimited.
        burst: tokens that may be taken at a time; less than one counts as one, since no token would ever be there.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._tokens = self._burst
        self._seen: float | None = None

    def is_full(self, now: float) -> bool:
        """Return whether it has all its tokens, as one that was just made. `now` is in monotonic seconds."""
        missing = self._burst - self._tokens
        return self._seen is None or missing <= max(0.0, now - self._seen) * self._rate

    def reserve(self, now: float, *, only_top: int = 0) -> float:
        """Take a token and return 0, or return the seconds until the next token.

        Args:
            now: in monotonic seconds.
            only_top: when positive, take only one of so many tokens at the top of a full bucket, so that another caller
                finds the whole burst less these. When they are taken, the bucket has to be full again: such a caller
                waits once for several tokens.
        """
        if self._rate <= 0:
            return 0.0
        if self._seen is not None and now > self._seen:
            self._tokens = min(self._burst, self._tokens + (now - self._seen) * self._rate)
        self._seen = now
        needed = self._burst - only_top + 1.0 if only_top > 0 else 1.0
        if self._tokens >= max(1.0, needed) - 1e-9:
            self._tokens -= 1.0
            return 0.0
        wanted = self._burst if only_top > 0 else 1.0
        return (wanted - self._tokens) / self._rate

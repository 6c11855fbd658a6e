"""Pod life-cycle events: what the runtime says of pods now, and what changed since the last look."""

"""How long tests wait for what comes in real time."""

from typing import Final

PATIENCE: Final = 300.0
"""Seconds that anything may take unless a test says otherwise: what takes two here takes twenty on a machine that is
busy with other things, or whose disk is, and a machine may pause as a whole. Nobody waits that long but for what never
comes.
"""

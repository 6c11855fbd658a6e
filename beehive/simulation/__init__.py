"""Simulated time and order: the runtime on which tests and fault searches run whole nodes."""

from beehive.simulation.runtime import Simulation
from beehive.simulation.scheduler import EPOCH, DeadlockError, Scheduler, VirtualClock

__all__ = ["EPOCH", "DeadlockError", "Scheduler", "Simulation", "VirtualClock"]

"""The simulation: a runtime with virtual time and seeded order, for tests and fault searches on whole nodes."""

from beehive.simulation.runtime import Simulation
from beehive.simulation.scheduler import EPOCH, DeadlockError, Scheduler, VirtualClock

__all__ = ["EPOCH", "DeadlockError", "Scheduler", "Simulation", "VirtualClock"]

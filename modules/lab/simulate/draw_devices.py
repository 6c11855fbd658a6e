"""Draws the devices of a plan: desired values, reports, states, and a broker that goes away."""

import random

from modules.lab.simulate.plan import DeviceAction, DeviceStep, Fault, FaultKind

_BETWEEN = (2.0, 10.0, 40.0)
"""Average seconds between two events of a device; one value is drawn for each."""
_ACTIONS = (
    *[DeviceAction.REPORTED] * 8,
    *[DeviceAction.DESIRED] * 4,
    DeviceAction.ONLINE,
    DeviceAction.OFFLINE,
    DeviceAction.DELETED,
)
_VALUES = (10, 20, 30, 40)
"""Desired values; few, so that a value comes back after another."""
_SOON = (0.05, 1.0, 8.0)
"""Seconds after which a deleted device is there again."""
_MODEL_CHANGES = (0, 0, 1, 2, 5)
_AT_ONCE = (0.005, 0.3, 3.0)
"""Seconds within which some messages are published: about the durations of a commit."""
_AWAY = (0, 0, 1, 3)
"""How often the broker goes away."""


def devices(draw: random.Random, node: int, seconds: float, number: int) -> list[DeviceStep]:
    """Draw the lives of a node's devices."""
    steps: list[DeviceStep] = []
    for each in range(number):
        name = f"device-{node}-{each}"
        rate = 1 / draw.choice(_BETWEEN)
        at = draw.uniform(0, seconds / 8)
        steps.append(DeviceStep(round(at, 3), name, DeviceAction.DESIRED, node, draw.choice(_VALUES)))
        while (at := at + draw.expovariate(rate)) < seconds:
            action = draw.choice(_ACTIONS)
            steps.append(DeviceStep(round(at, 3), name, action, node, draw.choice(_VALUES)))
            if action is DeviceAction.DELETED:
                at += draw.choice(_SOON)
                steps.append(DeviceStep(round(at, 3), name, DeviceAction.DESIRED, node, draw.choice(_VALUES)))
    return steps


def models(draw: random.Random, seconds: float) -> list[DeviceStep]:
    """Draw times when the model forbids all desired values, and allows them again."""
    times = sorted(draw.uniform(0, seconds) for _ in range(draw.choice(_MODEL_CHANGES)))
    return [DeviceStep(round(at, 3), "model", DeviceAction.MODEL, 0, number % 2) for number, at in enumerate(times)]


def publications(draw: random.Random, seconds: float) -> tuple[float, ...]:
    """Draw times when applications publish messages for the cloud: some at a time, so that one comes while the outbox
    is written for another.
    """
    begins = [draw.uniform(0, seconds) for _ in range(draw.choice((0, 3, 12)))]
    times = [begin + draw.uniform(0, draw.choice(_AT_ONCE)) for begin in begins for _ in range(3)]
    return tuple(sorted(round(at, 4) for at in times))


def broker_faults(draw: random.Random, node: int, seconds: float) -> list[Fault]:
    """Draw times when the MQTT broker is away."""
    times = sorted(draw.uniform(0, seconds) for _ in range(draw.choice(_AWAY)))
    lasts = [draw.choice((0.5, 5.0, 40.0)) for _ in times]
    return [
        Fault(round(at, 3), FaultKind.BROKER_AWAY, node, round(last, 3)) for at, last in zip(times, lasts, strict=True)
    ]

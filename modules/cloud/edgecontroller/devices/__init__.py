"""Devices and DeviceModels for the nodes of the devices."""

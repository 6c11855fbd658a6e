"""The Device Mapper Interface: programs that speak the protocols of devices (mappers) register here by gRPC.

A mapper registers on edgecore's socket for one protocol, and sends its reports there. edgecore sends it the devices and
models of its protocol on the mapper's own socket: after its registration, after each change, and again after the mapper
was unreachable.
"""

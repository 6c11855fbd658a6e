"""devicetwin: the node's record of its devices, which applications, mappers and the cloud read and change.

`module` is the actor. The decisions are pure functions of a device and a message: `twins` (one property), `changes`
(one device). `membership` knows which devices belong to the node; `slots` keeps them in memory and commits their
changes; `uplink` sends the cloud the values that it has not confirmed yet.
"""

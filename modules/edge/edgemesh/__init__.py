"""edgemesh: Services of the node's pods: their addresses (`nft`, `proxy`) and their names (`dns`), without a cloud too.

`objects`, `backends`, `selection` and `tables` are pure: they make tables from Services, EndpointSlices and the node's
pods. `module` is the actor that holds them; `nft` brings them into the kernel, `proxy` serves them where that is not
allowed, and `dns` answers for the names.
"""

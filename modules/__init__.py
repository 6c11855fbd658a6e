"""Every module beside the three in the middle, and the processes that put modules together.

`modules.edgecore` and `modules.cloudcore` are processes (command line, configuration, assembly); the other packages
are modules on the bus. Nothing below (`beehive`, `protos`, `metamanager`, `edgehub`, `edged`) imports from here.
"""

"""Every module beside `metamanager`, `edgehub` and `edged`, the processes that run them, and the tools.

- `modules.edge`: modules of an edge node.
- `modules.cloud`: modules of the cloud.
- `modules.processes`: command line, configuration and assembly of `edgecore`, `cloudcore` and the demo.
- `modules.tools`: traces, replay, simulation, printing.

Nothing below (`beehive`, `protos`, `metamanager`, `edgehub`, `edged`) imports from here.
"""

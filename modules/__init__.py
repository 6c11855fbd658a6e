"""Every module beside `metamanager`, `edgehub` and `edged`, what all of them share, and the processes that run them.

- `modules.apimachinery`: the Kubernetes API: its types, validation, patches, and tables.
- `modules.streams`: the frames of streams.
- `modules.edge`: modules of an edge node.
- `modules.cloud`: modules of the cloud.
- `modules.runtimes`: container runtimes behind CRI.
- `modules.cli`, `modules.kubectl`: the command line's grammar, and kubectl's verbs.
- `modules.insight`, `modules.page`: answers for people, and the page that shows them.
- `modules.processes`: command line, configuration and assembly of `edgecore`, `cloudcore` and the demo.
- `modules.lab`: replay, simulation and doubles.

`metamanager`, `edgehub` and `edged` import `modules.apimachinery` from here, and nothing else.
"""

"""The programs that run containers: crun (or runc), and conmon as the parent of each container.

`launching` starts programs, `runtime_command` the command line of crun and runc, `conmon` conmon's, `commands`
runs commands in a container. Nothing here knows CRI.
"""

"""The sync loop: the machine of a pod (`pod_machine`), the loop that carries its effects out (`loop`), and the assembly
of edged's parts.
"""

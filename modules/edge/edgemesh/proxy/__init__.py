"""Services on loopback addresses by sockets of this process, where rules in the kernel are not allowed."""

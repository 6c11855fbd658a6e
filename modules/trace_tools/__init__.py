"""What is told from a trace: the story of one object, diagrams for other programs, and a page to look around in.

Everything here reads records of `beehive.trace` and turns them into `Event`s first, so that a delivery on the bus, a
call of the container runtime and a frame captured between two foreign programs are shown and explained alike. Nothing
of it is loaded by a running agent.
"""

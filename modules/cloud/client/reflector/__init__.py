"""Lists and watches the objects of one kind, as client-go's reflector does; without threads, sockets and clocks."""

"""The tools: traces, replay, simulation, and tables for a terminal."""

"""The composition root and the programs that people start: CLI, later server and batch."""

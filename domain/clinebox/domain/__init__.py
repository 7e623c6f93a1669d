"""The pure core: what happened in a recorded Cline run, decided from evidence alone."""

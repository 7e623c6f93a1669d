"""The command line: `clinebox run`, `demo`, `classify`, one module each."""

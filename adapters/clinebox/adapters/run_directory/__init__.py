"""The run directory (SPEC §14): written once per run, read back by `clinebox classify`."""

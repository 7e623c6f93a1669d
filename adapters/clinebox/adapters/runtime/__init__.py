"""The Cline binary on this host: fetched once, checked against its pin, kept in a shared cache (SPEC §9)."""

"""One suite of checks that every sandbox provider passes, ours and a user's; needs no pytest (SPEC §12)."""

from __future__ import annotations

from clinebox.adapters.conformance.model import Check, CheckResult, Verdict
from clinebox.adapters.conformance.suite import CHECKS, check_provider, conformance

__all__ = ["CHECKS", "Check", "CheckResult", "Verdict", "check_provider", "conformance"]

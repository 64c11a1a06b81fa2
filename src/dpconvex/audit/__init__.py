"""Attack every claim: lower bounds on privacy, and mutants that the attack must catch."""

from dpconvex.audit.attack import AuditReport, audit
from dpconvex.audit.mutants import MUTANTS, Mutant

__all__ = ["MUTANTS", "AuditReport", "Mutant", "audit"]

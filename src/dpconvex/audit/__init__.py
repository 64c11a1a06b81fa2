"""Attack every claim: lower bounds on privacy, and mutants that the attack must catch."""

from dpconvex.algorithms.attacks import Mutant
from dpconvex.audit.attack import audit
from dpconvex.audit.bounds import runs_needed
from dpconvex.audit.canary import CanaryReport, audit_once
from dpconvex.audit.function import Case, audit_function, audit_target
from dpconvex.audit.gallery import EXHIBITS, gallery
from dpconvex.audit.report import AuditReport
from dpconvex.audit.stated import ZCDP, Stated
from dpconvex.audit.suite import MUTANTS, mutants
from dpconvex.audit.whitebox import look_inside, sampler_fit, sensitivities, shared_noise

__all__ = [
    "EXHIBITS",
    "MUTANTS",
    "ZCDP",
    "AuditReport",
    "CanaryReport",
    "Case",
    "Mutant",
    "Stated",
    "audit",
    "audit_function",
    "audit_once",
    "audit_target",
    "gallery",
    "look_inside",
    "mutants",
    "runs_needed",
    "sampler_fit",
    "sensitivities",
    "shared_noise",
]

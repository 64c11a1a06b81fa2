"""What a person reads: a receipt in words, and a page that can be signed."""

from dpconvex.report.page import report
from dpconvex.report.picture import Curve
from dpconvex.report.words import Section, Statement, Table, explain

__all__ = ["Curve", "Section", "Statement", "Table", "explain", "report"]

"""What a person reads: a receipt in words, a page that can be signed, and the card of a model."""

from dpconvex.report.card import ASKED, ModelCard, model_card
from dpconvex.report.page import report
from dpconvex.report.picture import Curve
from dpconvex.report.words import Section, Statement, Table, explain

__all__ = ["ASKED", "Curve", "ModelCard", "Section", "Statement", "Table", "explain", "model_card", "report"]

"""Regularisers: what holds the weights, one a file."""

from everlearn.learning.loss import Minibatch, Term, Terms
from everlearn.learning.regulariser import NoRegulariser, Regulariser
from everlearn.regularisers.ewc import EWC
from everlearn.regularisers.freeze import Freeze
from everlearn.regularisers.lwf import LWF
from everlearn.regularisers.si import SI

__all__ = ["EWC", "LWF", "SI", "Freeze", "Minibatch", "NoRegulariser", "Regulariser", "Term", "Terms"]

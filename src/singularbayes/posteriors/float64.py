"""The functions that families and priors use, in NumPy: the same formulas in double precision."""

from numpy import abs, exp, log, sum
from scipy.special import erf

__all__ = ["abs", "erf", "exp", "log", "sum"]

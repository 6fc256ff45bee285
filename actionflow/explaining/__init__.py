"""Explain failures: which visible feature or attribute goes with them, in rules, and whether chance gives as much."""

from actionflow.explaining.failures import Explanation, explain

__all__ = ["Explanation", "explain"]

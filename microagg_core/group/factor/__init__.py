"""Minimum-weight [1,2]-factors: the optimum, its proof, and the bound it gives on any grouping by two or more."""

from microagg_core.group.bounds import Certificate
from microagg_core.group.factor.minimum import Factor, minimum_factor
from microagg_core.group.factor.optimal import Optimum, optimal_two

__all__ = ["Certificate", "Factor", "Optimum", "minimum_factor", "optimal_two"]

"""scikit-learn's transformer interface: masking as a step of a pipeline.

What a fitted transformer holds of its records is what a release of them would show: the combinations of means and how
many records have each. It may be stored and handed on where that may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from microagg_core.api.arguments import RandomState, whole_number
from microagg_core.api.masking import microaggregate
from microagg_core.arrays import Floats
from microagg_core.errors import DataError, SpecError


class ParameterError(SpecError, ValueError):
    """A parameter of a transformer is wrong; a ``ValueError``, as scikit-learn has it."""


class RecordsError(DataError, ValueError):
    """The records given to a transformer cannot be masked; a ``ValueError``, as scikit-learn has it."""


class MicroaggregationTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replace each record's attributes by the means of its group of at least k records.

    ``fit_transform`` masks the records it is given: each gets the means of its own group, so that no combination is
    held by fewer than k of them. ``transform`` masks *other* records: each gets the nearest of the combinations that
    were made in ``fit``. Such a record is in no group and takes part in no mean, so its values are not in what comes
    out; but it may well be the only one of the others with its combination, and where it lies is told as exactly as
    combinations are close. To make k-anonymous data of records, give them to ``fit_transform``. Of the records of
    ``fit``, ``transform`` may give some another combination than ``fit_transform`` did, namely a nearer one: which
    record was in which group is not kept.

    Parameters are those of :func:`microagg_core.microaggregate`; ``parameters`` are the algorithm's own. Without a
    ``random_state`` the seed is 0: the same records give the same groups.

    Attributes:
        combinations_: the released combinations, an array of (groups, attributes).
        sizes_: how many records of ``fit`` have each.
        n_features_in_, feature_names_in_: what scikit-learn asks of every transformer.

    >>> X = np.array([[1.0], [9.0], [1.5], [8.0]])
    >>> masking = MicroaggregationTransformer(k=2)
    >>> masking.fit_transform(X).ravel().tolist()
    [1.25, 8.5, 1.25, 8.5]
    >>> masking.transform([[2.0]]).tolist(), masking.sizes_.tolist()
    ([[1.25]], [2, 2])
    """

    def __init__(
        self,
        k: int = 5,
        *,
        algorithm: str = "mdav",
        parameters: Mapping[str, Any] | None = None,
        standardize: bool = True,
        refine: str = "off",
        random_state: RandomState = None,
    ) -> None:
        self.k = k
        self.algorithm = algorithm
        self.parameters = parameters
        self.standardize = standardize
        self.refine = refine
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> MicroaggregationTransformer:
        """Make groups of the records and keep their means.

        Raises:
            ValueError: a wrong parameter, fewer than k records, or values that are missing or infinite.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Mask the records: each gets the means of its group.

        Raises:
            ValueError: a wrong parameter, fewer than k records, or values that are missing or infinite.
        """
        with _as_value_errors():
            k = whole_number("k", self.k, 1)
            values = validate_data(self, X, dtype=np.float64, ensure_min_samples=k)
            masked = microaggregate(
                values,
                None,
                k,
                self.algorithm,
                standardize=self.standardize,
                refine=self.refine,
                random_state=self.random_state,
                **(self.parameters or {}),
            )
        data: Floats = masked.data
        self.combinations_, self.sizes_ = np.unique(data, axis=0, return_counts=True)
        return data

    def transform(self, X: Any) -> Floats:
        """Give each record the nearest of the combinations that were made.

        Raises:
            ValueError: other attributes than those of ``fit``, or values that are missing or infinite.
        """
        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float64, reset=False)
        mean, deviation = self._scale()
        tree = cKDTree((self.combinations_ - mean) / deviation)
        nearest: Floats = self.combinations_[tree.query((values - mean) / deviation)[1]]
        return nearest

    def _scale(self) -> tuple[Floats, Floats]:
        """Take mean and deviation of what was released, which is all that is kept, to tell which records are near."""
        width = self.combinations_.shape[1]
        if not self.standardize:
            return np.zeros(width), np.ones(width)
        mean = np.average(self.combinations_, axis=0, weights=self.sizes_)
        deviation = np.sqrt(np.average((self.combinations_ - mean) ** 2, axis=0, weights=self.sizes_))
        return mean, np.where(deviation > 0, deviation, 1.0)


@contextmanager
def _as_value_errors() -> Iterator[None]:
    try:
        yield
    except SpecError as error:
        raise ParameterError(error.message) from None
    except DataError as error:
        raise RecordsError(error.message) from None

"""The contract of kinds: questions of a release to a quasi-identifier, which each kind answers in a file of its own.

A column becomes *ticks*, numbers that can be compared and computed with and lose nothing of the values. Groups are made
of the ticks' offsets from an origin, standardized; each group's ticks are replaced by their representative, which goes
back to Arrow, into a file; and the gate, which knows neither groups nor plan, reads the file's ticks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats
from microagg_core.data.hierarchies import Hierarchy
from microagg_core.data.tables.hashing import missing_in, one_array
from microagg_core.data.trees import CodedTree
from microagg_core.group.metrics.moments import Groups, Moments, Origin, moments_of, offsets_from

Ticks = NDArray[Any]
#: Plain values, kept as JSON; what they are is a kind's own affair.
Traits = Any
#: How a spec has means rounded: a step, ``type`` or ``none``; or, where it says nothing, :data:`DEFAULT_ROUNDING`.
Rule = str | float
#: One decimal more than the input needs for floats, else the column's own type.
DEFAULT_ROUNDING = "default"
#: What is kept instead of a rule for a kind that releases no means.
MODE, MEDIAN, MODE_OR_PARENT = CATEGORY_RULES = ("mode", "median", "mode or parent")
#: Some numbers far from evenly spread, in which the mean of a group is neither a value of it nor its middle.
EXAMPLES = (0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)


class Claim(StrEnum):
    """A promise of a kind about what it releases; nothing that is not claimed is checked, published or shown."""

    #: The mean over all records stays, but for what rounding may move it.
    MEAN_KEPT = "mean kept"
    #: The same of the weighted mean, in a release with survey weights; no kind claims it by itself.
    WEIGHTED_MEAN_KEPT = "weighted mean kept"
    #: A released value lies between the least and the greatest of its group, but for a rounding step that was asked.
    WITHIN_RANGE = "within range"
    #: A released value is one that a record of its group has.
    VALUE_OF_GROUP = "a value of the group"
    #: Of two groups, one wholly below the other, the released value of the lower is not above that of the other.
    ORDER_KEPT = "order kept"
    #: No value is more frequent in its group than the released one.
    MODE_OF_GROUP = "most frequent of the group"
    #: It is that, or a parent: the least that all values of the group have in common in the spec's hierarchy.
    MODE_OR_PARENT = "most frequent of the group, or their least common parent"
    #: At least half of the group have the released value or a lower one, and at most half a lower one.
    MEDIAN_OF_GROUP = "median of the group"
    #: The same, each record counted by its survey weight; no kind claims these by itself.
    WEIGHTED_MODE_OF_GROUP = "most weight of the group"
    WEIGHTED_MEDIAN_OF_GROUP = "weighted median of the group"
    WEIGHTED_MODE_OR_PARENT = "most weight of the group, or their least common parent"


#: What claims become where groups have survey weights.
WEIGHTED = {
    Claim.MEAN_KEPT: Claim.WEIGHTED_MEAN_KEPT,
    Claim.MODE_OF_GROUP: Claim.WEIGHTED_MODE_OF_GROUP,
    Claim.MEDIAN_OF_GROUP: Claim.WEIGHTED_MEDIAN_OF_GROUP,
    Claim.MODE_OR_PARENT: Claim.WEIGHTED_MODE_OR_PARENT,
}
#: Claims of a kind that releases the mean of a group.
CLAIMS_OF_A_MEAN = frozenset({Claim.MEAN_KEPT, Claim.WITHIN_RANGE, Claim.ORDER_KEPT})


@dataclass(frozen=True)
class Declaration:
    """Declaration of a quasi-identifier in a spec: its name, how it is to be rounded, and what it is taken for."""

    name: str = ""
    rule: Rule = DEFAULT_ROUNDING
    #: "number", "ordinal" or "nominal"; None: what the column's type says.
    kind: str | None = None
    #: All values of an ordinal column as text, the lowest first; None: in their own order.
    levels: tuple[str, ...] | None = None
    importance: float = 1.0
    #: What its values are below, where groups may be released as parents.
    hierarchy: Hierarchy | None = None
    #: Whether a missing value of a nominal column is a category of its own.
    null_is_category: bool = False


UNDECLARED = Declaration()


@dataclass(frozen=True)
class Unit:
    """Unit of mean and deviation (the variance has its square), and how many released ticks make one."""

    name: str
    ticks: float


@dataclass(frozen=True)
class Kind(ABC):
    """One quasi-identifier of a file: its name, its Arrow type, and the rule by which the spec has it rounded.

    Methods stand in the order in which a release asks: which columns are of this kind; what its values are, as ticks;
    how ticks count in the metric; what stands for a group; how the gate holds that against the claims; its figures.
    """

    name: str
    source_type: pa.DataType
    rule: Rule = DEFAULT_ROUNDING
    #: How many times as much as another attribute it counts in the metric.
    importance: float = 1.0
    #: Whether no value is missing, as a null is a category of its own.
    null_is_category: bool = False

    #: What a spec calls such columns.
    declared_as: ClassVar[str] = "number"
    #: What holds of released values; :mod:`microagg_core.data.kinds.registry` tries it on :meth:`examples`.
    claims: ClassVar[frozenset[Claim]]
    #: Whether ticks follow from all values of the file, such as places in a dictionary; see :meth:`more_traits`.
    needs_all_values: ClassVar[bool] = False
    #: Whether it is the column of survey weights, whose groups get their mean weight, and all else weighted means.
    is_weight: ClassVar[bool] = False
    #: Whether the spec may ask for float64, by the rule ``none``.
    may_be_float: ClassVar[bool] = False
    #: Whether the mean of such a column can be a float, which is what the Python functions give.
    has_float_means: ClassVar[bool] = False
    #: Whether pandas may hold such a column as objects of Python.
    may_be_objects: ClassVar[bool] = False
    #: Whether algorithms are compared on such a column without being asked to.
    is_compared: ClassVar[bool] = True
    #: The traits of no values.
    NO_TRAITS: ClassVar[Traits] = None

    @classmethod
    @abstractmethod
    def takes(cls, arrow_type: pa.DataType, declared: Declaration) -> bool:
        """Tell whether a column that is declared so and has this Arrow type is of this kind."""

    @classmethod
    def of(cls, declared: Declaration, arrow_type: pa.DataType) -> Kind:
        return cls(declared.name, arrow_type, declared.rule, declared.importance)

    @property
    def is_coded(self) -> bool:
        """Tell whether ticks are codes of categories, which agree or do not: from 0, the most frequent first."""
        return False

    @property
    def tree(self) -> CodedTree | None:
        """Parents of codes, which are codes too, where groups may be released as them."""
        return None

    @property
    def is_ranked(self) -> bool:
        """Tell whether a value counts by its rank: a group's centre is its mean rank, whatever it is released as."""
        return False

    @abstractmethod
    def refuse_rule(self) -> None:
        """Stop where the rounding rule does not fit the type."""

    def ticks(self, column: pa.ChunkedArray | pa.Array) -> tuple[Ticks, Bools]:
        """Make ticks of a column, and tell which are missing (null or NaN); ticks under a missing value are 0."""
        array = one_array(column)
        missing = missing_in(array)
        ticks = self._ticks_of(array)
        return (np.where(missing, ticks.dtype.type(0), ticks) if missing.any() else ticks), missing

    @abstractmethod
    def _ticks_of(self, array: pa.Array) -> Ticks:
        """The ticks of an array; whatever they are where it is null."""

    def finite(self, ticks: Ticks) -> Bools:
        """Tell which ticks can be computed with; a column with others is refused."""
        return np.ones(len(ticks), dtype=np.bool_)

    @property
    def unusable(self) -> tuple[str, str]:
        """Name the values that cannot be computed with, and say what helps."""
        return "infinite values", "correct them"

    def count_unusable(self, column: pa.ChunkedArray) -> int:
        """Count values of a released column that are no finite number; here NaN does not count as missing."""
        ticks, _ = self.ticks(column)
        return int(np.sum(~self.finite(ticks))) + int(np.sum(missing_in(one_array(column)))) - int(column.null_count)

    def with_nulls(self, array: pa.Array) -> pa.Array:
        """Put a null for every missing value, as it is released."""
        return array

    def examples(self) -> pa.Array:
        """Values of the column's type, some of them equal, on which claims are tried."""
        return pa.array(EXAMPLES).cast(self.source_type)

    def more_traits(self, traits: Traits, column: pa.ChunkedArray | pa.Array, ticks: Ticks) -> Traits:
        """Add what must be known of all values beside their moments.

        The ticks are the finite ones of the column. A kind whose ticks follow from all values of the file, such as
        their places in a dictionary, collects the column's values here, and gets all of them in :meth:`for_input`.
        """
        return traits

    def all_traits(self, parts: Iterable[Traits]) -> Traits:
        return self.NO_TRAITS

    def for_input(self, traits: Traits, moments: Moments) -> Kind:
        """Complete the kind, once traits and moments of all values are known."""
        return self

    def input_moments(self, traits: Traits, moments: Moments) -> Moments:
        """Moments of the ticks that :meth:`for_input` gives, from those of the ticks before."""
        return moments

    def moments(self, ticks: Ticks) -> Moments:
        return moments_of(ticks)

    def offsets(self, ticks: Ticks, origin: Origin) -> Floats:
        """The coordinate of the metric, before it is standardized."""
        return offsets_from(ticks, origin)

    def released_offsets(self, ticks: Ticks, origin: Origin) -> Floats:
        """The same of what :meth:`representatives` gave."""
        return offsets_from(ticks, origin)

    @property
    @abstractmethod
    def released_type(self) -> pa.DataType:
        """Arrow type of the released column."""

    @property
    @abstractmethod
    def applied_rule(self) -> Rule:
        """The rounding rule that is carried out; where the spec has none, what follows instead."""

    @abstractmethod
    def rounding_in_words(self) -> str:
        """Say how representatives are rounded, and why."""

    @property
    def finer(self) -> Kind | None:
        """The same with a decimal more in its means, where the column's own type has them rounded; else None."""
        return None

    @abstractmethod
    def representatives(self, ticks: Ticks, groups: Groups) -> Ticks:
        """The released tick of each group."""

    @abstractmethod
    def to_arrow(self, ticks: Ticks, missing: Bools | None = None) -> pa.Array:
        """Make a column of the released type."""

    @property
    def reader(self) -> Kind:
        """The kind that reads the released column back."""
        return self

    def read_from(self, released_form: Callable[[pa.Table], pa.Table]) -> Kind:
        """Have :attr:`reader` read values as a format writes them."""
        return self

    @abstractmethod
    def fits(self, before: Ticks, after: Ticks, groups: Groups) -> Bools:
        """Tell whether each released tick may stand for the input's ticks of its group, in the order of the groups."""

    @abstractmethod
    def keeps_mean(self, before: Moments, after: Moments) -> bool:
        """Compare the moments of the released column with those of the input, as far as rounding lets them agree."""

    @property
    @abstractmethod
    def unit(self) -> Unit:
        """Unit of figures of the released column."""

    @property
    def ticks_of_value(self) -> float:
        """Count the ticks of the input that make a unit; those of a release may be others."""
        return type(self)(self.name, self.source_type).unit.ticks

    @abstractmethod
    def shown(self, tick: float) -> float | str:
        """A released tick in the unit, as a number; where a number says little, as text."""

    @abstractmethod
    def plain_numbers(self, ticks: Ticks, origin: Origin) -> Floats:
        """Input ticks as numbers for whoever computes with the column as it is given."""

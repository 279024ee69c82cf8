"""What looks unwise in a spec and is meant: named column by column, or a run refuses it."""

from __future__ import annotations

from pydantic import Field

from microagg_core.spec.model import Columns, Model

#: What is acknowledged of identifiers; the rest is of confidential columns.
OF_IDENTIFIERS = ("spelling_of_units", "part_of_unit", "equal_arrivals")


class Acknowledge(Model):
    """What looks unwise and is meant, column by column."""

    nearly_unique: Columns = Field(default=(), description="confidential columns that almost name their record")
    jointly_unique: Columns = Field(
        default=(), description="all confidential columns, where together they almost name their record"
    )
    ties_few_records: Columns = Field(
        default=(), description="confidential columns whose values few records share, such as members of a household"
    )
    spelling_of_units: Columns = Field(
        default=(), description="identifiers, or all columns of the unit, whose spelling tells people or firms apart"
    )
    part_of_unit: Columns = Field(default=(), description="columns of a unit that repeat, and alone name nobody")
    equal_arrivals: Columns = Field(
        default=(), description="all columns of the unit, where arrivals with the values of who left are others"
    )
    free_text: Columns = Field(default=(), description="confidential columns of long texts that differ")
    fixes_quasi_identifier: Columns = Field(
        default=(),
        description="confidential columns from which, together, quasi-identifiers can be computed or nearly so",
    )
    completes_mean: Columns = Field(
        default=(),
        description="confidential columns that tell quasi-identifiers nearly exactly together with the released means",
    )

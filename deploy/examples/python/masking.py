"""Mask two columns of a table from Python, and see what it costs.

    python deploy/examples/python/masking.py

The companies are those of ``deploy/examples/sme``. A file that is to be published goes through ``microagg run``: only
a release is checked before it is readable.
"""

from pathlib import Path

import pandas as pd

from microagg_core import microaggregate

COMPANIES = Path(__file__).parents[1] / "sme" / "companies.csv"
QUASI_IDENTIFIERS = ["surface_m2", "employees"]


def main() -> None:
    """Mask the companies for two values of k, and show the second."""
    companies = pd.read_csv(COMPANIES).drop(columns="company")  # the name says who it is: it goes
    for k in (5, 3):
        masked = microaggregate(companies, QUASI_IDENTIFIERS, k=k, algorithm="mdav", refine="fast")
        sizes = sorted(pd.Series(masked.groups).value_counts())
        print(f"k = {k}: information loss {masked.losses.l_sse:.1f} %, groups of {sizes}")
    print(masked.data.round(1).sort_values(QUASI_IDENTIFIERS).to_string(index=False))


if __name__ == "__main__":
    main()

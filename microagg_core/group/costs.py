"""Estimate the cost of refinement and its proofs, so that plans count it.

Nothing here loads numpy: the registry of algorithms stands on it, and reading a spec must be quick.
"""

from __future__ import annotations

import math
from collections.abc import Callable

#: By effort: at most how many sweeps downhill come after those of the annealing.
EFFORTS: dict[str, int] = {"fast": 0, "thorough": 5}

#: Sweeps of annealing: of the thorough effort; of the fast one, and one for each attribute and each of k, to so many.
_THOROUGH, _FAST, _MOST_FOR_ATTRIBUTES, _MOST_FOR_K = 600, 6, 20, 10
#: And for each attribute of codes, of whose groups more are about as good, to so many.
_FOR_CODES, _MOST_FOR_CODES = 4, 24
#: By how many times more there are in blocks of at most so many records, which take some hundredths of a second.
_MORE_FOR_FEW = ((1200, 4), (5000, 2))
#: Above this k, few changes of whole groups pay, so that steps downhill count for more.
LARGE_K = 10

#: Records of a block that is annealed in one region, and for each of k: in smaller regions too much of what pays would
#: cross a border. And one more sweep in so many makes good what borders keep from happening.
_RECORDS_OF_REGION, _RECORDS_FOR_K, _MORE_FOR_REGIONS = 25_000, 2500, 8

#: Steps that a search gives each record unless told otherwise.
DEFAULT_STEPS = 6000

#: Seconds that the proof for a block may take where nobody asked for the factor itself, and the optimum.
_AFFORDABLE, _AFFORDABLE_OPTIMUM = 10.0, 15.0


#: Seconds of a record that the fast effort takes at most; reached above k=10, or with some hundred attributes.
_MOST_SECONDS, _LEAST_SWEEPS = 1e-4, 6

#: Refinement starts from slabs where MDAV's groups take more seconds a record: mostly those of a search that grows with
#: the number of records. Slabs lose more until they are refined, so that the annealing is to be less hot, by this share
#: of their loss.
_SLOW, COOLER = 2.5e-6, 0.4

#: With more attributes than the first, near records are taken for the nearest ones: those in so many leaves of a tree,
#: or fewer above the second.
_EXACT, _MANY, _LEAVES = 8, 20, 48


def annealing_sweeps(effort: str, n: int, p: int, k: int, codes: int = 0) -> int:
    """Count how often an effort tries a change for each record, of whose p attributes so many are codes.

    >>> [annealing_sweeps("fast", n, 4, 5) for n in (1000, 4000, 100_000)], annealing_sweeps("thorough", 1000, 4, 5)
    ([60, 30, 17], 600)
    """
    if effort != "fast":
        return _THOROUGH
    times = next((times for few, times in _MORE_FOR_FEW if n <= few), 1) * (3 if k > LARGE_K else 1)
    for_attributes = min(p - codes, _MOST_FOR_ATTRIBUTES) + min(_FOR_CODES * codes, _MOST_FOR_CODES)
    most = max(_LEAST_SWEEPS, int(_MOST_SECONDS / _seconds_of_step(p, k)))
    sweeps = min(times * (_FAST + for_attributes + min(k, _MOST_FOR_K)), most)
    return sweeps + -(-sweeps // _MORE_FOR_REGIONS) * (region_count(n, k) > 1)


def region_count(n: int, k: int) -> int:
    """Count the regions in which a block is annealed, whatever the threads; few, as borders cost.

    >>> region_count(90_000, 5), region_count(100_000, 5), region_count(1_000_000, 5), region_count(100_000, 50)
    (1, 2, 6, 1)
    """
    return max(1, math.isqrt(n // max(_RECORDS_OF_REGION, _RECORDS_FOR_K * k)))


def downhill_sweeps(effort: str, k: int) -> int:
    """Count how often, at most, an effort then looks for each record's best change.

    >>> downhill_sweeps("fast", 5), downhill_sweeps("fast", 20), downhill_sweeps("thorough", 5)
    (0, 2, 5)
    """
    return 2 if effort == "fast" and k > LARGE_K else EFFORTS[effort]


def leaves_read(n: int, p: int) -> int:
    """Count the leaves of a tree that are read for a record's near ones, of 32 records each; 0: as many as it takes.

    >>> [leaves_read(10_000, p) for p in (8, 10, 50, 300)], leaves_read(1500, 50)
    ([0, 48, 19, 12], 0)
    """
    return 0 if p <= _EXACT or n <= 32 * _LEAVES else max(12, _LEAVES * _MANY // max(p, _MANY))


# Fitted on one core of a 2-core virtual machine, to uniform and lognormal data: what a tree looks at for a record's
# neighbours doubles with each attribute, up to all records or those that are read at most; and a step of a record.
def refinement_seconds(n: int, p: int, k: int, sweeps: int) -> float:
    """Estimate the seconds of one core for so many sweeps, neighbours included."""
    looked_at = min(n, 20 << min(p, 30), 2 * 32 * leaves_read(n, p) or n)
    return n * (1.9e-6 + 1.3e-10 * p * looked_at + sweeps * _seconds_of_step(p, k))


def _seconds_of_step(p: int, k: int) -> float:
    return 8e-8 + min(k, 24) * (2.8e-8 + 3e-9 * p)


def refinement_bytes(n: int, p: int, k: int) -> int:
    """Add up three copies of the data, neighbours with their distances, members of groups, and centres."""
    return 8 * n * (3 * p + 2 * max(10, k + 2) + max(10, min(k + 2, 26)) + 12) + 8 * (n // k) * (p + 4)


# Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine. More
# attributes make more records near one another, so that more pairs must be weighed; on a line, paths grow long.
def factor_seconds(n: int, p: int) -> float:
    """Estimate the seconds of one core for a minimum-weight [1,2]-factor."""
    growth = min(1.05 + 0.055 * p, 3.0)
    on_a_line = 4.5e-10 * n * n if p == 1 else 0.0
    return 4.5e-3 * math.exp(0.2 * min(p, 20)) * math.pow(n / 1000, growth) + on_a_line


def factor_bytes(n: int, p: int) -> int:
    """Add up candidate pairs, the search's nodes and heap, and copies of the data."""
    return n * (1800 + 24 * p)


def factor_is_affordable(n: int, p: int, k: int) -> bool:
    """Say whether the [1,2]-factor of so many records, the best proof for k=2, takes some seconds at most.

    >>> factor_is_affordable(100_000, 4, 2), factor_is_affordable(100_000, 10, 2), factor_is_affordable(100, 4, 3)
    (True, False, False)
    """
    return k == 2 and factor_seconds(n, p) <= _AFFORDABLE


# Fitted on the same machine to uniform data of 100 to 6,000 records and 2 to 20 attributes, and to the reference files.
def optimum_seconds(n: int, p: int) -> float:
    """Estimate the seconds of one core for the best groups of two and three records, factor included."""
    return factor_seconds(n, p) + 5.5e-4 * n * (0.6 + 0.1 * p) * math.pow(n / 1000, 0.8)


def optimum_bytes(n: int, p: int) -> int:
    """Add up groups that prices do not exclude, the solver's matrices of them, and the factor."""
    return n * 30_000 + factor_bytes(n, p)


def optimum_is_affordable(n: int, p: int, k: int) -> bool:
    """Say whether the optimum of so many records, which there is for k=2 alone, takes some seconds at most.

    >>> optimum_is_affordable(4092, 11, 2), optimum_is_affordable(100_000, 4, 2), optimum_is_affordable(100, 4, 3)
    (True, False, False)
    """
    return k == 2 and optimum_seconds(n, p) <= _AFFORDABLE_OPTIMUM


def columns_are_affordable(n: int, k: int) -> bool:
    """Say whether prices of so many records, the best proof for k from 3 to 5, take a minute or so at most."""
    return 3 <= k <= 5 and n <= 1500


def proof_seconds(n: int, p: int, k: int, thorough: bool, certified: bool) -> float:
    """Estimate the seconds of one core for proofs besides the neighbour bound and the algorithm's own."""
    if thorough and optimum_is_affordable(n, p, k):
        return optimum_seconds(n, p)
    if certified:
        return 0.0
    if factor_is_affordable(n, p, k):
        return factor_seconds(n, p)
    return 0.02 * n if thorough and columns_are_affordable(n, k) else 0.0


def proof_bytes(n: int, p: int, k: int, thorough: bool) -> int:
    if thorough and optimum_is_affordable(n, p, k):
        return optimum_bytes(n, p)
    return factor_bytes(n, p) if factor_is_affordable(n, p, k) else 0


#: With more attributes there is no tree.
MOST_ATTRIBUTES = 16


def of_a_search(n: int, p: int) -> float:
    """Scale the seconds of a search with the number of records and, above all, of attributes.

    >>> of_a_search(100_000, 0), of_a_search(100_000, 17)
    (1.0, inf)
    """
    if p > MOST_ATTRIBUTES:
        return math.inf
    return math.pow(1.48, p) * math.pow(n / 100_000, 0.06 * p)


def peeling(
    scanned: float, scan: tuple[float, float], record: tuple[float, float], search: float
) -> Callable[[int, int, int], float]:
    """Model the seconds of a group a round, each around one record: by plain scans, or a tree where that is quicker.

    ``scanned`` are those of a record by scans; ``scan`` those of a scan, for a record and for its attribute; ``record``
    those of a record by a tree, likewise; ``search`` those of a group by a search, which is no longer than a scan.
    """

    def seconds(n: int, p: int, k: int) -> float:
        of_scan = n * (scan[0] + scan[1] * p)
        of_search = min(of_scan, search * of_a_search(n, p))
        by_tree = n * (record[0] + record[1] * p) * of_a_record(n) + n / k * of_search
        return min(scanned * n + n / k * of_scan, by_tree)

    return seconds


def of_a_record(n: int) -> float:
    return math.pow(n / 100_000, 0.15)


# Fitted to tests/benchmark/algorithm_cost.py, on uniform data, on one core of a 2-core virtual machine.
mdav_seconds = peeling(scanned=2.4e-7, scan=(3.9e-10, 1.1e-10), record=(5.1e-7, 2.4e-8), search=5.3e-7)


def starts_from_slabs(n: int, p: int, k: int) -> bool:
    """Say whether MDAV's groups would take too long for groups that are refined.

    >>> [starts_from_slabs(n, 10, 5) for n in (10_000, 20_000)], [starts_from_slabs(5000, p, 5) for p in (16, 20)]
    ([False, True], [False, True])
    """
    return n > 32 * _LEAVES and mdav_seconds(n, p, k) > _SLOW * n


def bytes_of_tree(n: int, p: int) -> int:
    """Estimate the tree's memory, or that of scans where there are too many attributes for a tree."""
    return n * (10 * p + 40 if p <= MOST_ATTRIBUTES else 56)

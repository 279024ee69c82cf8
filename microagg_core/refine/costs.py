"""What refinement costs, added to an algorithm's own model so that plans count it."""

from __future__ import annotations

from dataclasses import replace

from microagg_core.algorithms import AlgorithmInfo, algorithms

#: By effort: sweeps of annealing, and at most how many downhill after them.
EFFORTS: dict[str, tuple[int, int]] = {"fast": (32, 1), "thorough": (600, 5)}

#: Steps that a search gives each record unless told otherwise.
DEFAULT_STEPS = 6000

#: Seconds that the proof for a block may take where nobody asked for the factor itself.
_AFFORDABLE = 10.0


# Fitted on one core of a 2-core virtual machine: what a tree looks at for a record's neighbours doubles with each
# attribute, up to all records; and a step of a record.
def refinement_seconds(n: int, p: int, k: int, sweeps: int) -> float:
    """Seconds of one core for so many sweeps, neighbours included."""
    looked_at = min(n, 20 << min(p, 30))
    return n * (3e-6 + 5.7e-10 * p * looked_at + sweeps * (6e-7 + 2.2e-8 * k * p))


def refinement_bytes(n: int, p: int, k: int) -> int:
    """Three copies of the data, neighbours with their distances, members of groups, and centres."""
    return 8 * n * (3 * p + 2 * max(10, k + 2) + max(10, min(k + 2, 26)) + 12) + 8 * (n // k) * (p + 4)


def factor_seconds(n: int, p: int) -> float:
    """Seconds of one core for a factor: those of the algorithm that is one."""
    return algorithms()["two_mu_approx"].cost_seconds(n, p, 2)


def factor_is_affordable(n: int, p: int, k: int) -> bool:
    """Whether the [1,2]-factor of so many records, the best proof there is for k=2, takes some seconds at most.

    >>> factor_is_affordable(100_000, 4, 2), factor_is_affordable(100_000, 10, 2), factor_is_affordable(100, 4, 3)
    (True, False, False)
    """
    return k == 2 and factor_seconds(n, p) <= _AFFORDABLE


def columns_are_affordable(n: int, k: int) -> bool:
    """Whether prices of so many records, the best proof there is for k from 3 to 5, take a minute or so at most.

    >>> columns_are_affordable(1500, 5), columns_are_affordable(1501, 5), columns_are_affordable(100, 6)
    (True, False, False)
    """
    return 3 <= k <= 5 and n <= 1500


def proof_seconds(n: int, p: int, k: int, thorough: bool) -> float:
    """Seconds of one core for what is proved besides the neighbour bound."""
    if factor_is_affordable(n, p, k):
        return factor_seconds(n, p)
    return 0.02 * n if thorough and columns_are_affordable(n, k) else 0.0


def refined_info(info: AlgorithmInfo, effort: str | float) -> AlgorithmInfo:
    """The algorithm with its cost and memory when followed by refinement: an effort's name, or seconds a block.

    >>> from microagg_core.algorithms import algorithms
    >>> mdav = algorithms()["mdav"]
    >>> refined_info(mdav, "fast").cost_seconds(1000, 4, 5) > mdav.cost_seconds(1000, 4, 5)
    True
    """

    def seconds(n: int, p: int, k: int) -> float:
        proof = 0.0 if info.certified else proof_seconds(n, p, k, effort == "thorough")
        if not isinstance(effort, str):
            return info.cost_seconds(n, p, k) + proof + effort
        sweeps = EFFORTS[effort][0] if effort in EFFORTS else 0
        return info.cost_seconds(n, p, k) + proof + refinement_seconds(n, p, k, sweeps)

    def memory(n: int, p: int, k: int) -> int:
        proof = algorithms()["two_mu_approx"].memory_bytes(n, p, 2) if factor_is_affordable(n, p, k) else 0
        return max(info.memory_bytes(n, p, k), refinement_bytes(n, p, k), proof)

    return replace(info, cost_seconds=seconds, memory_bytes=memory)

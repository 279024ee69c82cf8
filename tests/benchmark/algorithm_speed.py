"""How fast the MDAV family and mu-Approx are, beside a plain brute force, and how their time and memory grow.

    python tests/benchmark/algorithm_speed.py --to FOLDER [--scale 0.01] [--ten-million] [--growth 'mdav;mdav_star']

Writes speed.json, speed.md and growth.svg. Seconds are CPU seconds of one thread, compilation left out, the least of
several runs where they are short. Memory is what a run adds to the process besides the records that it is given.
Uniform data are ``default_rng(1).random((n, p))``, grouped with k = 5. Ratios are taken within one run of the command.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from microagg_core.group.algorithms import algorithms

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
from published import dataset
from yardstick import brute_force_mdav

K = 5
#: Each line of the growth: algorithm and parameters.
FAMILY: dict[str, tuple[str, dict[str, float]]] = {
    "mdav": ("mdav", {}),
    "mdav_generic": ("mdav_generic", {}),
    "mdav_single": ("mdav_single", {}),
    "mdav_plus": ("mdav_plus", {}),
    "v_mdav, gamma 0.2": ("v_mdav", {"gamma": 0.2}),
    "v_mdav, gamma 1.1": ("v_mdav", {"gamma": 1.1}),
    "mdav_star": ("mdav_star", {}),
    "mu_approx": ("mu_approx", {}),
}
SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
#: Data, attributes, and by how many times MDAV is to be as fast as the brute force on 100,000 records: least and hope.
AGAINST_BRUTE_FORCE = (("uniform", 4, 20, 40), ("uniform", 10, 4, 8), ("three latent factors", 13, 10, 30))
#: CPU seconds up to which a run is repeated, and how often.
_SHORT, _REPEATS = 1.0, 3


def records(data: str, n: int, p: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    if data == "uniform":
        return rng.random((n, p))
    if data == "three latent factors":
        return rng.standard_normal((n, 3)) @ rng.standard_normal((3, p)) + 0.1 * rng.standard_normal((n, p))
    return dataset(data)


def seconds_of(work: Callable[[], Any]) -> float:
    """CPU seconds of the quickest of some runs."""
    best = np.inf
    for _ in range(_REPEATS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
        if best > _SHORT:
            break
    return float(best)


def cost(name: str, data: str, n: int, p: int, k: int) -> tuple[float, float]:
    """CPU seconds of a run, and the bytes a record that it takes besides the records."""
    algorithm, params = FAMILY.get(name, (name, {}))
    run, X = algorithms()[algorithm].run, records(data, n, p)
    before = psutil.Process().memory_info().rss
    seconds = seconds_of(lambda: run(X, k, **params))
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return seconds, max(0, peak - before) / len(X)


def costs(cases: list[tuple[str, str, int, int, int]]) -> list[tuple[float, float]]:
    """The costs of cases, algorithm and all, by rising size, in this fresh process, with all compiled before."""
    for name, data, n, p, k in cases:
        # Small and large data go different ways.
        cost(name, data, min(n, 2_000), p, k)
        cost(name, data, min(n, k * 600 * p), p, k)
    return [cost(*case) for case in cases]


def brute_force(cases: list[tuple[str, int, int]]) -> list[float]:
    """CPU seconds of the yardstick, compiled before."""
    brute_force_mdav(records("uniform", 100, 4), K)
    made = [records(*case) for case in cases]
    return [seconds_of(lambda X=X: brute_force_mdav(X, K)) for X in made]


def neighbour_graph(n: int, p: int) -> float:
    """CPU seconds of SciPy's tree and its answer for each record's K - 1 nearest."""
    from scipy.spatial import cKDTree

    X = records("uniform", n, p)
    return seconds_of(lambda: cKDTree(X).query(X, K, workers=1))


def fresh(work: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def row(what: str, measured: float, unit: str, goal: float, hope: float | None, more: bool = False) -> dict[str, Any]:
    reached = measured >= goal if more else measured <= goal
    return {"what": what, "measured": measured, "unit": unit, "goal": goal, "hope": hope, "reached": bool(reached)}


def growth_of(names: list[str], scale: float) -> dict[str, Any]:
    """Seconds and bytes a record by size, and the exponent of the growth, on uniform data of 4 attributes."""
    sizes = [max(100, int(n * scale)) for n in SIZES]
    found: dict[str, Any] = {}
    for name in names:
        measured = fresh(costs, [(name, "uniform", n, 4, K) for n in sizes])
        seconds = [s for s, _ in measured]
        exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        found[name] = {
            "records": sizes,
            "seconds": seconds,
            "bytes_a_record": [b for _, b in measured],
            "exponent": exponent,
        }
    small = sizes[:3]
    seconds = fresh(brute_force, [("uniform", n, 4) for n in small])
    exponent = float(np.polyfit(np.log(small), np.log(seconds), 1)[0])
    found["brute force"] = {"records": small, "seconds": seconds, "bytes_a_record": [], "exponent": exponent}
    return found


def table_of(growth: dict[str, Any], scale: float) -> list[dict[str, Any]]:
    n, rows = int(100_000 * scale), []
    ours = fresh(costs, [("mdav", data, n, p, K) for data, p, _, _ in AGAINST_BRUTE_FORCE])
    theirs = fresh(brute_force, [(data, n, p) for data, p, _, _ in AGAINST_BRUTE_FORCE])
    for (data, p, least, hope), (seconds, _), slow in zip(AGAINST_BRUTE_FORCE, ours, theirs, strict=True):
        rows.append(
            row(f"mdav, {data}, {n} x {p}", slow / seconds, "times the brute force's speed", least, hope, more=True)
        )
    if "mdav" in growth:
        at = {name: line["seconds"] for name, line in growth.items()}
        what = f"mdav, {growth['mdav']['records'][4]} x 4"
        rows.append(row(what, at["mdav"][4] / at["mdav"][2], "times the time of a tenth", 20, 12))
        for name in ("mdav_plus", "v_mdav, gamma 0.2", "v_mdav, gamma 1.1", "mdav_star"):
            if name in at:
                what = f"{name}, {growth[name]['records'][4]} x 4"
                rows.append(row(what, at[name][4] / at["mdav"][4], "times mdav's time", 3, 1))
    if "mu_approx" in growth:
        graph = fresh(neighbour_graph, growth["mu_approx"]["records"][4], 4)
        what = f"mu_approx, {growth['mu_approx']['records'][4]} x 4"
        rows.append(row(what, growth["mu_approx"]["seconds"][4] / graph, "times the neighbour graph's", 3, None))
    names = [name for name in growth if name in FAMILY]
    for name, (seconds, _) in zip(names, fresh(costs, [(name, "eia", 4092, 11, 3) for name in names]), strict=True):
        rows.append(row(f"{name}, EIA, k=3", 1000 * seconds, "ms", 50, None))
    return rows


def ten_million() -> dict[str, Any]:
    """MDAV on ten million records of four attributes."""
    seconds, memory = fresh(costs, [("mdav", "uniform", 10_000_000, 4, K)])[0]
    return {**row("mdav, 10000000 x 4", seconds, "s", 600, None), "bytes_a_record": memory}


def as_markdown(result: dict[str, Any]) -> str:
    lines = ["| what | measured | goal | hope | |", "| --- | --- | --- | --- | --- |"]
    for line in result["table"]:
        goal, hope = ("" if value is None else f"{value:g}" for value in (line["goal"], line["hope"]))
        reached = "" if line["reached"] else "not reached"
        lines.append(f"| {line['what']} | {line['measured']:.3g} {line['unit']} | {goal} | {hope} | {reached} |")
    lines += ["", "| seconds, uniform x 4, k=5 | " + " | ".join(map(str, result["growth_records"]))]
    lines[-1] += " | grows with n to the | bytes a record, largest |"
    lines.append("| --- " * (len(result["growth_records"]) + 3) + "|")
    for name, line in result["growth"].items():
        seconds = [f"{value:.3g}" for value in line["seconds"]]
        seconds += [""] * (len(result["growth_records"]) - len(seconds))
        memory = f"{line['bytes_a_record'][-1]:.0f}" if line["bytes_a_record"] else ""
        lines.append(f"| {name} | {' | '.join(seconds)} | {line['exponent']:.2f} | {memory} |")
    lines += ["", f"One thread of {result['machine']}; CPU seconds, compilation left out."]
    return "\n".join(lines) + "\n"


def draw(growth: dict[str, Any], path: Path) -> None:
    """The seconds over the records, with one line an algorithm."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, line in growth.items():
        style = {"color": "black", "linestyle": "--"} if name == "brute force" else {"linestyle": "-"}
        axes.loglog(line["records"], line["seconds"], marker="o", markersize=3, label=name, **style)
    axes.set(xlabel="records, uniform in 4 attributes, k=5", ylabel="CPU seconds of one core")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, required=True, help="folder for the three files")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the records to use everywhere")
    parser.add_argument("--growth", help="lines of the growth to measure, separated by semicolons; all if not given")
    parser.add_argument("--ten-million", action="store_true", help="also run MDAV on ten million records")
    chosen = parser.parse_args()
    names = chosen.growth.split(";") if chosen.growth else list(FAMILY)
    growth = growth_of(names, chosen.scale)
    table = table_of(growth, chosen.scale)
    if chosen.ten_million:
        table.append(ten_million())
    result = {
        "machine": f"{platform.machine()}, {psutil.cpu_count()} cores, Python {platform.python_version()}",
        "growth_records": [max(100, int(n * chosen.scale)) for n in SIZES],
        "table": table,
        "growth": growth,
    }
    chosen.to.mkdir(parents=True, exist_ok=True)
    (chosen.to / "speed.json").write_text(json.dumps(result, indent=1))
    (chosen.to / "speed.md").write_text(as_markdown(result))
    draw(growth, chosen.to / "growth.svg")
    print(as_markdown(result))


if __name__ == "__main__":
    main()

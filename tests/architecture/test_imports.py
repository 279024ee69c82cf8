"""The science knows no cluster: microagg_core neither imports nor loads what only flows may use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {"dask", "distributed", "prefect", "s3fs"}
CORE = sorted((ROOT / "microagg_core").rglob("*.py"))
FLOWS = sorted((ROOT / "flows").rglob("*.py"))

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
import microagg_core
names = [m.name for m in pkgutil.walk_packages(microagg_core.__path__, "microagg_core.")]
for name in names:
    importlib.import_module(name)
print(len(names))
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
WORKER = "import sys, microagg_core.runner; print(*sorted(sys.modules))"
LIGHT = "import sys, microagg_core.spec.release; print(*sorted({n.partition('.')[0] for n in sys.modules}))"

TARGET = "from microagg_core.kernels.machine_code.target import fingerprint; print(fingerprint())"
COLLECT_EVERYTHING = """
import pytest
assert pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider"]) == 0
"""


def in_a_fresh_process(code: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_fresh_process_that_imports_every_module_has_no_cluster_in_it() -> None:
    count, loaded = in_a_fresh_process(IMPORT_EVERYTHING)
    assert int(count) >= len([path for path in CORE if path.name != "__init__.py"])
    assert FORBIDDEN & set(loaded.split()) == set()


def test_reading_a_spec_needs_neither_compiler_nor_arrays() -> None:
    (loaded,) = in_a_fresh_process(LIGHT)
    assert {"numba", "llvmlite", "numpy", "pandas", "pyarrow"} & set(loaded.split()) == set()


def test_a_worker_loads_solvers_and_graphs_only_for_the_algorithm_that_needs_them() -> None:
    """They take a sixth of the memory of a small worker."""
    (loaded,) = in_a_fresh_process(WORKER)
    unwanted = {"scipy.optimize", "scipy.sparse", "networkx", "microagg_core.group.factor", "matplotlib", "jinja2"}
    assert unwanted & set(loaded.split()) == set()


def imported(tree: ast.AST) -> set[str]:
    """The packages that a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_leads_out_of_the_core(path: Path) -> None:
    names = imported(ast.parse(path.read_text(encoding="utf-8")))
    assert names & (FORBIDDEN | {"microagg_flows", "deploy", "infra", "tests"}) == set()


def private_names(tree: ast.AST) -> set[str]:
    """The names that a file imports from our modules although they are these modules' own."""
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("microagg_")
        for alias in node.names
        if alias.name.startswith("_")
    }


def test_a_private_name_is_seen() -> None:
    assert private_names(ast.parse("from microagg_core.api import _a, b")) == {"microagg_core.api._a"}


@pytest.mark.parametrize("path", [*CORE, *FLOWS], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_private_to_a_module_stays_there(path: Path) -> None:
    assert private_names(ast.parse(path.read_text(encoding="utf-8"))) == set()


def test_the_tests_leave_kernels_the_processor_that_they_are_compiled_for() -> None:
    """Every process of a test run imports all modules of tests before it runs a kernel."""
    *_, collected = in_a_fresh_process(COLLECT_EVERYTHING + TARGET)
    assert in_a_fresh_process(TARGET) == [collected]

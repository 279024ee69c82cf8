"""The science knows no cluster: microagg_core neither imports nor loads what only flows may use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from rooms import parsed

from microagg_core.kernels.machine_code.target import fingerprint

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
LOADED = "import sys, {}; print(*sorted(sys.modules))"
TARGET = "from microagg_core.kernels.machine_code.target import fingerprint; print(fingerprint())"


def in_a_fresh_process(code: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_fresh_process_that_imports_every_module_has_no_cluster_in_it() -> None:
    count, loaded = in_a_fresh_process(IMPORT_EVERYTHING)
    assert int(count) >= len([path for path in CORE if path.name != "__init__.py"])
    assert FORBIDDEN & set(loaded.split()) == set()


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("microagg_core", {"numba", "llvmlite", "numpy", "pandas", "pyarrow"}),
        ("microagg_core.spec.release", {"numba", "llvmlite", "numpy", "pandas", "pyarrow"}),
        # Solvers and graphs take a sixth of the memory of a small worker.
        (
            "microagg_core.runner",
            {"scipy.optimize", "scipy.sparse", "networkx", "microagg_core.group.factor", "matplotlib", "jinja2"},
        ),
        # Each is a tenth of a second or more of every call.
        ("microagg_flows.command.cli", {"numba", "numpy", "pandas", "pyarrow", "yaml", "pydantic"}),
        ("microagg_flows.releasing", {"scipy.optimize", "scipy.spatial", "scipy.special", "networkx", "matplotlib"}),
    ],
)
def test_a_fresh_process_loads_only_what_it_needs(module: str, unwanted: set[str]) -> None:
    (loaded,) = in_a_fresh_process(LOADED.format(module))
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


def private_names(tree: ast.AST) -> set[str]:
    """The names that a file imports from our modules although they are these modules' own."""
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("microagg_")
        for alias in node.names
        if alias.name.startswith("_")
    }


def test_no_import_leads_out_of_the_core() -> None:
    outside = FORBIDDEN | {"microagg_flows", "deploy", "infra", "tests"}
    leading = {path: imported(parsed(path)) & outside for path in CORE}
    assert {path: names for path, names in leading.items() if names} == {}


def test_private_names_stay_in_their_module() -> None:
    taken = {path: private_names(parsed(path)) for path in [*CORE, *FLOWS]}
    assert {path: names for path, names in taken.items() if names} == {}


def test_the_tests_leave_kernels_the_processor_that_they_are_compiled_for() -> None:
    """This process has imported all modules of the tests that were asked for."""
    assert in_a_fresh_process(TARGET) == [str(fingerprint())]

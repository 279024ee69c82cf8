"""What keeps this suite a matter of seconds, on a cold machine too."""

from __future__ import annotations

from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

#: Kernels of a few lines, which compile in a second.
SMALL_KERNELS = {f"microagg_core.kernels.tools.{name}" for name in ("hashing", "sums")}


@pytest.fixture(autouse=True)
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse kernels, compiled before or not: a test that runs one belongs to `property` or `integration`."""
    compiled = Dispatcher.compile

    def refuse(kernel: Any, signature: Any) -> Any:
        module = kernel.py_func.__module__
        # What these use of numba itself is compiled with them, unless a cache has it.
        if module in SMALL_KERNELS or not module.startswith("microagg_core."):
            return compiled(kernel, signature)
        pytest.fail(f"a unit test runs the kernel {module}.{kernel.py_func.__name__}")

    monkeypatch.setattr(Dispatcher, "compile", refuse)

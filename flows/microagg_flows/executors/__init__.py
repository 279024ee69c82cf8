"""Who does the tasks of a stage; a stage does not know which.

>>> from microagg_flows.progress import Silence
>>> InProcess(Silence()).map(abs, [-1, 2, -3], "abs")
[1, 2, 3]
"""

from __future__ import annotations

from microagg_flows.executors.contract import Executor, Item, Result
from microagg_flows.executors.in_process import InProcess
from microagg_flows.executors.once_compiled import OnceCompiled

__all__ = ["Executor", "InProcess", "Item", "OnceCompiled", "Result"]

"""A function that begins and does not end before a test lets it, in whatever process of a command it runs.

What a test does in between happens in the middle of that function, however fast or busy the machine is.
"""

from __future__ import annotations

import os
from pathlib import Path

from servers.process import wait_until

#: Every Python process imports this when it starts, if it lies on its path; with folder, module and function filled in.
_AT_START = """
import functools, importlib.util, sys, time
from pathlib import Path

FOLDER, MODULE, FUNCTION = Path({folder!r}), {module!r}, {function!r}

class Holding:
    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        spec.loader.exec_module = functools.partial(hold, spec.loader.exec_module)
        return spec

def hold(execute, module):
    execute(module)
    whole = getattr(module, FUNCTION)

    @functools.wraps(whole)
    def held(*arguments):
        (FOLDER / "begun").touch()
        while FOLDER.exists() and not (FOLDER / "let-go").exists():
            time.sleep(0.02)
        return whole(*arguments)

    setattr(module, FUNCTION, held)
    for declared in list(vars(module).values()):
        if getattr(declared, "does", None) is whole:  # a step, which names the function that does it
            object.__setattr__(declared, "does", held)

sys.meta_path.insert(0, Holding())
"""


class Held:
    """A function, by its module and name, that is held in all processes that get this environment."""

    def __init__(self, folder: Path, function: str) -> None:
        folder.mkdir()
        module, _, name = function.rpartition(".")
        (folder / "sitecustomize.py").write_text(_AT_START.format(folder=str(folder), module=module, function=name))
        self.environment = {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}
        self._folder = folder

    def begins(self) -> None:
        """Wait until somebody is in the middle of it."""
        wait_until((self._folder / "begun").exists, "the function that is held")

    def let_go(self) -> None:
        (self._folder / "let-go").touch()


SURVEY = "microagg_core.release.steps.survey.survey_part"
SCATTER = "microagg_core.release.steps.scatter.scatter_part"
ANONYMIZE = "microagg_core.release.steps.anonymize.anonymize_partition"

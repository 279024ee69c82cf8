"""From a fresh clone to a running project, with nothing but Python 3.11 or newer.

    python3 infra/bootstrap.py demo [ARGS]                set everything up, then run `microagg demo ARGS`
    python3 infra/bootstrap.py test [CATEGORY...] [ARGS]  set everything up, then ruff, mypy and `pytest ARGS`, or only
                                                          what is named, such as `unit` (tests/README.md has them all)

Everything goes into a virtual environment, `.venv` in the clone or the folder that MICROAGG_VENV names, at the
versions of infra/constraints.txt. The second run finds it there and starts at once.
"""

# No line of this file may need a newer Python than the one that it refuses.
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the reader's Python, not ours
    found = sys.executable + " is Python " + sys.version.split()[0]
    sys.exit(
        "bootstrap: microagg needs Python 3.11 or newer, and " + found + "; "
        "run this file with a newer one, such as python3.11 infra/bootstrap.py"
    )

from setting_up import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

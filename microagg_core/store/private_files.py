"""Files that hold a secret: read only where nobody but their owner can."""

from __future__ import annotations

import os
import stat

from microagg_core.errors import SpecError

_OTHERS = 0o077
#: Keys are short; what is longer is another file, named by mistake.
_MOST_BYTES = 4096


def read_private(path: str, field: str, cure: str) -> bytes:
    """What a file on this machine holds; ``field`` is where it was named, ``cure`` says how one is made.

    Raises:
        SpecError: there is no such file, others can read it, or it holds no key.
    """
    try:
        # A pipe would be waited for without end.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a descriptor
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise SpecError(f"{field}: {path} is not a file; name the file that holds the key")
            if mode & _OTHERS:
                raise SpecError(f"{field}: others can read {path}; chmod 600 {path}")
            data = file.read(_MOST_BYTES + 1)
    except IsADirectoryError:
        raise SpecError(f"{field}: {path} is not a file; name the file that holds the key") from None
    except FileNotFoundError:
        raise SpecError(f"{field}: there is no file {path}; {cure}") from None
    except OSError as error:
        raise SpecError(f"{field}: {path} cannot be read ({error.strerror}); check its permissions") from None
    if len(data) > _MOST_BYTES:
        raise SpecError(f"{field}: {path} is too large for a key; name the file that holds the key alone")
    if not data.strip():
        raise SpecError(f"{field}: {path} is empty; {cure}")
    return data

"""Find the members of a folder: an algorithm, a kind or a format is one new file there, and no line elsewhere.

A member is a module-level object of a type, or a class derived from it. Modules that begin with an underscore are not
looked at, modules without a member are passed over. The package's ``ORDER``, a tuple of module names, may say which
come first; all others follow by name. Other distributions add members by entry points, where a group is named: an
entry point leads to a module, or to the member itself, and its name is that of the member.
"""

from __future__ import annotations

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, TypeVar

from microagg_core.errors import InternalError, SpecError

T = TypeVar("T")


def members(package: str, of: type[T], group: str = "") -> tuple[T, ...]:
    """List objects of a type in all modules of a package, each once; then those of the entry points of ``group``.

    >>> from microagg_core.group.algorithms.info import AlgorithmInfo
    >>> len({info.name for info in members("microagg_core.group.algorithms", AlgorithmInfo)}) > 10
    True
    """
    values = (value for module in _modules(package, group) for value in _objects(module, of))
    return tuple({id(value): value for value in values}.values())


def classes(package: str, of: type[T], group: str = "") -> tuple[type[T], ...]:
    """List classes that derive from a type, are not abstract, and stand in the package or in entry points."""
    return tuple(value for module in _modules(package, group) for value in _subclasses(module, of))


@cache
def names(package: str, group: str = "") -> tuple[str, ...]:
    """List names of modules and entry points in order; none is loaded, so the folder must hold nothing but members."""
    folder, added = import_module(package), _entry_points(group)
    own = {module.name for module in pkgutil.iter_modules(folder.__path__) if module.name[0] != "_"}
    if twice := sorted(own & added.keys()):
        raise SpecError(
            f"the plug-in {twice[0]} (entry point of {group}) has the name of a part of microagg; uninstall it"
        )
    first = getattr(folder, "ORDER", ())  # also what an installation lacks: it is missed when it is loaded
    return (*first, *sorted(own.difference(first)), *sorted(added))


def member(package: str, name: str, of: type[T], group: str = "") -> T:
    """Load one module, or follow one entry point, and return its only object of a type.

    >>> from microagg_core.group.algorithms.info import AlgorithmInfo
    >>> member("microagg_core.group.algorithms", "mdav", AlgorithmInfo).name
    'mdav'
    """
    return _only(_objects(_loaded(package, name, group), of), of, name)


def member_class(package: str, name: str, of: type[T], group: str = "") -> type[T]:
    """Load one module, or follow one entry point, and return the only class in it that derives from a type."""
    return _only(_subclasses(_loaded(package, name, group), of), of, name)


def plug_ins(group: str, of: type[T]) -> tuple[T, ...]:
    """Load the objects of a type to which the entry points of a group lead."""
    return tuple(value for name in _entry_points(group) for value in _objects(_plug_in(name, group), of))


def plug_in_versions() -> dict[str, str]:
    """Versions of the distributions that add members: they decide bytes as the libraries do."""
    points = entry_points()
    added = [point for group in points.groups if group.startswith("microagg.") for point in points.select(group=group)]
    return {point.dist.name: point.dist.version for point in added if point.dist is not None}


def forget() -> None:
    """Look at folders and entry points again: tests add files."""
    names.cache_clear()
    _entry_points.cache_clear()
    _modules.cache_clear()


@cache
def _modules(package: str, group: str) -> tuple[Any, ...]:
    return tuple(_loaded(package, name, group) for name in names(package, group))


def _loaded(package: str, name: str, group: str) -> Any:
    if name not in _entry_points(group):
        return import_module(f"{package}.{name}")
    return _plug_in(name, group)


def _plug_in(name: str, group: str) -> Any:
    point = _entry_points(group)[name]
    try:
        return point.load()
    except Exception as error:
        raise SpecError(
            f"the plug-in {name} ({point.value}, entry point of {group}) cannot be loaded: "
            f"{type(error).__name__}; update it, or uninstall the package that brings it"
        ) from error


@cache
def _entry_points(group: str) -> dict[str, EntryPoint]:
    named: dict[str, EntryPoint] = {}
    for point in entry_points(group=group) if group else ():
        if named.setdefault(point.name, point).value != point.value:
            raise SpecError(f"two plug-ins have the name {point.name} (entry points of {group}); uninstall one of them")
    return named


def _objects(place: Any, of: type[T]) -> list[T]:
    candidates = vars(place).values() if isinstance(place, ModuleType) else [place]
    return [value for value in candidates if isinstance(value, of)]


def _subclasses(place: Any, of: type[T]) -> list[type[T]]:
    if not isinstance(place, ModuleType):
        return [place]
    own = (value for value in vars(place).values() if getattr(value, "__module__", "") == place.__name__)
    return [
        value for value in own if inspect.isclass(value) and issubclass(value, of) and not inspect.isabstract(value)
    ]


def _only(values: list[T], of: type[Any], name: str) -> T:
    if len(values) != 1:
        raise InternalError(f"a bug: {name} must have one {of.__name__}, and has {len(values)}; please report it")
    return values[0]

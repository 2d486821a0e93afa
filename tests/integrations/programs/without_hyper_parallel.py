"""Stands in for hyper_parallel, which MindFormers' PyNative part imports and PyPI does not have.

On one worker nothing of it computes: its classes are what Tensors are compared with.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Nothing:
    """Stands in for the classes that plans of layers use."""

    def __init__(self, *arguments, **options):
        pass


class _Module(ModuleType):
    """Has a class of every name that is asked for."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (_Nothing,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] == "hyper_parallel":
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(_Finder())

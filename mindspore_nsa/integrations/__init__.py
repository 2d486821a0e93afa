"""The layers inside the frameworks in which MindSpore's users train; see docs/.

Nothing of a framework is imported before a function here needs it.
"""

import importlib

_MODULES = ("mindformers", "mindone")


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f".{name}", __name__)


def __dir__():
    return sorted({*globals(), *_MODULES})

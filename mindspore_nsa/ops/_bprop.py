"""Functions of a number of arguments that is known only when an operator is made."""

import itertools
import linecache
from functools import cache

_NUMBERS = itertools.count(1)


@cache
def _compiled(source):
    """The code of a module, in a file that debuggers and MindSpore's parser find."""
    file = f"<mindspore_nsa, function {next(_NUMBERS)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    return compile(source, file, "exec")


def generated(source, **free):
    """The one function that `source` defines; `free` are the values of its free names.

    MindSpore counts the parameters of a function and reads its source.
    """
    name = source[len("def ") : source.index("(")]
    lines = "".join(f"    {line}" for line in source.splitlines(True))
    scope = {"__name__": __name__}
    exec(_compiled(f"def make({', '.join(free)}):\n{lines}\n    return {name}\n"), scope)
    return scope["make"](**free)


def bprop_of(function, count):
    """A bprop of `count` inputs that hands them to `function` as one tuple."""
    names = ", ".join(f"x{i}" for i in range(count))
    source = f"def bprop({names}, out, dout):\n    return function(({names},), out, dout)\n"
    return generated(source, function=function)

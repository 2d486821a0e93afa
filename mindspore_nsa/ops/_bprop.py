"""Functions whose source is written when they are made, because only then its parts are known."""

import ast
from functools import cache

# Beyond the end of this file, where its own lines are not taken for theirs.
_FIRST_LINE = 1_000_000


@cache
def _compiled(source):
    """The code of a module, which stands for a part of this one: MindSpore opens the file."""
    tree = ast.increment_lineno(ast.parse(source), _FIRST_LINE - 1)
    return compile(tree, __file__, "exec")


def generated(source, **free):
    """The one function that `source` defines; `free` are the values of its free names.

    MindSpore counts the parameters of a function and reads its source, from the attribute `source`
    where Python finds none.
    """
    name = source[len("def ") : source.index("(")]
    lines = [f"    {line}" for line in source.splitlines(True)]
    scope = {"__name__": __name__}
    head = f"def make({', '.join(free)}):\n"
    exec(_compiled(f"{head}{''.join(lines)}\n    return {name}\n"), scope)
    function = scope["make"](**free)
    function.source = lines, _FIRST_LINE + 1
    return function


def bprop_of(function, count):
    """A bprop of `count` inputs that hands them to `function` as one tuple."""
    names = ", ".join(f"x{i}" for i in range(count))
    source = f"def bprop({names}, out, dout):\n    return function(({names},), out, dout)\n"
    return generated(source, function=function)

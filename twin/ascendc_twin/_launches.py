"""Launches `kernel<<<blocks, reserved, stream>>>(arguments)`, which C++ has not, as calls."""

import re

# Comments and literals, in which brackets mean nothing.
_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\\n])*\""
    r"|'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_NAME = re.compile(r"(?:::)?\s*[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*\s*$")
_CORES = {"__vector__": "kVector", "__cube__": "kCube"}


def _blank(text):
    """The text with comments and literals blanked, so that places stay where they are."""
    return _SKIPPED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _callee(code, end):
    """Where the kernel that a launch names begins, and where its template arguments do."""
    at = end
    while at > 0 and code[at - 1].isspace():
        at -= 1
    arguments = at
    if code[at - 1] == ">":
        depth = inside = 0
        while at > 0:
            at -= 1
            inside += (code[at] == ")") - (code[at] == "(")
            if inside:
                continue
            depth += (code[at] == ">") - (code[at] == "<")
            if depth == 0:
                break
        arguments = at
    name = _NAME.search(code, 0, arguments)
    if name is None:
        raise ValueError("no name of a kernel stands before it")
    begin = name.start() + len(name[0]) - len(name[0].lstrip())
    return begin, arguments


def _close(code, begin):
    """Where ">>>" ends the brackets that begin here."""
    depth = 0
    for at in range(begin, len(code)):
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
        elif depth == 0 and code.startswith(">>>", at):
            return at
        if depth < 0 or code[at] == ";":
            break
    raise ValueError('no ">>>" ends it')


def _cores(code, name):
    """On which cores a kernel runs, by the words before it."""
    word = re.escape(name.rpartition("::")[2].strip())
    for found in re.finditer(rf"([\w\s\"(),]*)\bvoid\s+{word}\s*\(", code):
        for mark, cores in _CORES.items():
            if re.search(rf"\b{mark}\b", found[1]):
                return cores
    return "kDeclared"


def rewrite(text, path):
    """The source with every launch as a call of the twin, or None where it has none.

    Lines keep their numbers, and `path` is the file that messages name.

    Raises:
        ValueError: If a launch cannot be read.
    """
    code = _blank(text)
    starts = [found.start() for found in re.finditer(r"<<<", code)]
    if not starts:
        return None
    parts, done = [], 0
    for start in starts:
        try:
            begin, arguments = _callee(code, start)
            end = _close(code, start + 3)
        except ValueError as error:
            line = text.count("\n", 0, start) + 1
            raise ValueError(
                f"{path}:{line}: a launch <<<...>>> is not understood: {error}"
            ) from None
        kernel, inside = text[begin:start], text[start + 3 : end]
        cores = _cores(code, text[begin:arguments])
        shown = re.sub(r"\s+", " ", text[begin:arguments].strip())
        parts += [
            text[done:begin],
            f'::twin::StreamLaunch("{shown}", ::twin::LaunchCores::{cores}, {inside})',
            f"([](auto... twin_arguments) {{ {kernel.strip()}(twin_arguments...); }})",
        ]
        done = end + 3
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    head = f'#include "twin/host/stream_launch.h"\n#line 1 "{quoted}"\n'
    return head + "".join(parts) + text[done:]

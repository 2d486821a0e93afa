"""Whether sources compile against the twin, and which names they miss: a compiler reads them, and
what it says is sorted."""

import os
import re
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import _tiling, cflags

HALVES = {"vector": ["-D__DAV_VEC__"], "cube": ["-D__DAV_CUBE__"], "both": []}
# A header that is not there hides what follows it, so it is taken for an empty one; this many of
# them are looked for in one source.
_HEADERS = 64

_NAME = r"['‘`](?P<name>[^'’]+)['’]"
# Compilers say so what is missing, and a report calls it so. The first that fits is taken.
_KINDS = [
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"(?P<name>\S+): No such file or directory", "header"),
        (rf"{_NAME} file not found", "header"),
        (rf"{_NAME} was not declared in this scope", "name"),
        (rf"use of undeclared identifier {_NAME}", "name"),
        (rf"there are no arguments to {_NAME} that depend on", "name"),
        (r"explicit qualification required to use member '(?P<name>[^']+)'", "name"),
        (rf"{_NAME} is not a member of (?:['‘`]|the global namespace)", "name"),
        (rf"no (?:type|template|member) named {_NAME} in ", "name"),
        (rf"no (?:type|template) named {_NAME}", "name"),
        (rf" has no member named {_NAME}", "name"),
        (rf"{_NAME} (?:in .* )?does not name a (?:template )?type", "name"),
        (rf"unknown type name {_NAME}", "name"),
        (rf"{_NAME} is not a (?:class template|template|class|type|namespace-name)", "name"),
        (rf"{_NAME} has not been declared", "name"),
        (rf"use of undeclared (?:template|namespace|class) {_NAME}", "name"),
        (rf"{_NAME} is not a (?:class, namespace, or enumeration)", "name"),
        (r"expected namespace name", "other"),
        (rf"no matching (?:member )?function for call to {_NAME}", "overload"),
        (rf"no matching constructor for initialization of {_NAME}", "overload"),
        (r"#error (?P<name>.+)", "#error"),
        (r"^[\"'“](?P<name>lib/.+: the twin .+)[\"'”]$", "#error"),
        (r"static assertion failed(?: due to requirement '[^']*')?:? ?(?P<name>.+)", "refused"),
        (r"static_assert failed(?: due to requirement '[^']*')? (?P<name>.+)", "refused"),
    )
]
_ERROR = re.compile(r"^(?P<place>.*?:\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)$")


@dataclass(frozen=True)
class Missing:
    """A name that a compiler did not find, or refused: its kind, and whose member it would be."""

    kind: str
    name: str


@dataclass
class Checked:
    """Output of a compiler for one source."""

    source: str
    places: dict = field(default_factory=dict)  # {Missing: [place, ...]}

    @property
    def errors(self):
        return sum(len(places) for places in self.places.values())


def classify(text):
    """Reads from an error message what is missing."""
    for pattern, kind in _KINDS:
        found = pattern.search(text)
        if not found:
            continue
        groups = found.groupdict()
        name = groups.get("name") or text
        if kind == "overload":
            name = _called(name)
        if kind == "name":
            name = _unqualified(name)
        return Missing(kind, name.strip("\"“”'"))
    return Missing("other", text)


def _unqualified(name):
    """The last part of a name, without arguments of a template."""
    return re.sub(r"<.*", "", name).rpartition("::")[2] or name


def _called(call):
    """The function's name in what a compiler says of a call: without arguments, template or not."""
    depth = 0
    # From the end of the argument list back to the parenthesis that opens it.
    if call.endswith(")"):
        for at in range(len(call) - 1, -1, -1):
            depth += (call[at] == ")") - (call[at] == "(")
            if depth == 0:
                call = call[:at]
                break
    return _unqualified(call)


def _messages_of_program(compiler, flags, source):
    """(place, text) of every error of a compiler that is a program."""
    # clang 16 refuses g++'s name of the second option.
    if "clang" in Path(compiler).name:
        terse = ["-ferror-limit=0", "-fno-caret-diagnostics"]
    else:
        terse = ["-fmax-errors=0", "-fno-diagnostics-show-caret"]
    command = [compiler, *flags, *terse, "-w", "-fsyntax-only"]
    done = subprocess.run(
        [*command, "-x", "c++", source],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )
    found = [match.groups() for line in done.stderr.splitlines() if (match := _ERROR.match(line))]
    if done.returncode and not found:
        # The compiler itself has failed, or its command line is wrong.
        said = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        found = [(source, (said[0].strip() or f"status {done.returncode}"))]
    return found


def _messages_of_libclang(flags, source):
    """Asks the library that Python's package libclang has for the missing names."""
    try:
        from clang.cindex import Diagnostic, Index, TranslationUnitLoadError
    except ImportError as error:
        raise FileNotFoundError(
            f"libclang: {error}; pip install libclang, or give --compiler another one"
        ) from error
    command = ["g++", "-print-file-name=include"]
    headers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    arguments = [*flags, "-w", "-ferror-limit=0", "-isystem", headers, "-x", "c++"]
    try:
        unit = Index.create().parse(source, args=arguments)
    except TranslationUnitLoadError as error:
        return [(source, str(error))]
    return [
        (f"{found.location.file}:{found.location.line}", found.spelling)
        for found in unit.diagnostics
        if found.severity >= Diagnostic.Error
    ]


def check(source, compiler, flags):
    """Lists what a compiler misses in a source. Missing headers are taken for empty ones, and are
    named."""

    def messages(all_flags):
        if compiler == "libclang":
            return _messages_of_libclang(all_flags, source)
        return _messages_of_program(compiler, all_flags, source)

    checked = Checked(source)
    with tempfile.TemporaryDirectory() as empty:
        for _ in range(_HEADERS):
            found = messages([*flags, "-idirafter", empty])
            absent = {
                (missing.name, place)
                for place, text in found
                if (missing := classify(text)).kind == "header"
            }
            for name, place in absent:
                checked.places.setdefault(Missing("header", name), []).append(place)
                _make_empty(Path(empty), name)
            if not absent:
                break
    for place, text in found:
        missing = classify(text)
        if missing.kind != "header":
            checked.places.setdefault(missing, []).append(place)
    return checked


def _make_empty(folder, name):
    """An empty header of that name; one outside of the folder, such as "../a.h", stands beside the
    places that a compiler looks into and cannot be made."""
    path = (folder / name).resolve()
    if folder.resolve() in path.parents:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def flags_for(half, standard, more):
    """Flags of a compiler for a kernel's source."""
    return [f"-std={standard}", *cflags(), *HALVES[half], *more]


def check_all(sources, compiler, flags, tiling=()):
    """Checked of every source, in their order. `tiling`: headers with definitions of tiling data,
    whose structs come before each source."""
    for path in (*sources, *tiling):
        open(path).close()  # one that is not there is an error of the caller's, not of a source
    texts = [Path(header).read_text() for header in tiling]

    def one(source):
        if not texts:
            return check(source, compiler, flags)
        with tempfile.TemporaryDirectory() as folder:
            header = Path(folder, "tiling.h")
            header.write_text(_tiling.structs(texts, Path(source).stem))
            return check(source, compiler, [*flags, "-include", str(header)])

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, sources))


def _row(missing, sources, places):
    name = missing.name if missing.kind in ("name", "other") else f"{missing.kind}: {missing.name}"
    return f"{sources:7} {places:7}  {name}"


def report(results):
    """The text for the author of the sources, and for us."""
    lines = []
    for result in results:
        said = "compiles" if not result.errors else f"does not compile, errors: {result.errors}"
        lines.append(f"{result.source}: {said}")
    sources, places, first = Counter(), Counter(), {}
    for result in results:
        for missing, where in result.places.items():
            sources[missing] += 1
            places[missing] += len(where)
            first.setdefault(missing, where[0])
    if sources:
        lines += ["", "sources  errors  what is missing, and where first"]
    # Other errors of a compiler mostly follow from missing names, so they come last.
    order = sorted(sources, key=lambda m: (m.kind == "other", -sources[m], -places[m], m.name))
    for missing in order:
        lines.append(f"{_row(missing, sources[missing], places[missing])}, {first[missing]}")
    right = sum(not result.errors for result in results)
    lines += ["", f"{right} of {len(results)} sources compile"]
    return "\n".join(lines)

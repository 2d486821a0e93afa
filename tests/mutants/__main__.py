"""Draws changes of one thing at random and asks the tests that are responsible for them.

`make mutants N=100 SEED=0 PATHS="cpu infer"`, or
python -m tests.mutants [-n N] [-s SEED] [-j COPIES] [-t SECONDS] [-q] [PATH ...]
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue

from . import python_places
from .copy import BUILD, ROOT, Copy, NotCompiled, sources
from .cpp_places import places as cpp_places
from .cpp_units import Units
from .equivalent import EQUIVALENT
from .judges import Judge, area_of, folder_of, judges_of
from .mutant import read

# A judge of a mutant has so many times as long as of the sources, and so many seconds.
PATIENCE = 3, 30
KILLED = ("killed", "timed out")


class CleanError(Exception):
    """A judge that fails without any change says nothing about one."""


def files_of(paths):
    """The files below the paths that somebody judges, with their numbers of lines."""
    found = {}
    folders = [path.partition(":")[0].rstrip("/") for path in paths]
    for name in sources():
        inside = any(name == folder or name.startswith(folder + "/") for folder in folders)
        if inside and folder_of(name) and name.endswith((".py", ".h", ".cc", ".cpp")):
            found[name] = read(ROOT / name).count("\n")
    return found


def draw(copy, files, count, seed, lines):
    """`count` mutants: a file by its lines, a kind that it has, a place of that kind.

    Where `lines` has names of a file and a line, only there.
    """
    rng, units = random.Random(seed), Units(copy)

    def all_places(file):
        if file.endswith(".py"):
            return python_places.places(copy.tree, file)
        unit = units.of(file)
        if unit is None:
            print(f"no mutants, nothing here compiles it: {file}", flush=True)
        return cpp_places(copy.tree, file, unit) if unit else []

    @cache
    def places(file):
        source = read(copy.tree / file)
        return [one for one in all_places(file) if not lines or one.place(source) in lines]

    names, drawn = dict(files), {}
    while len(drawn) < count and names:
        file = rng.choices(list(names), list(names.values()))[0]
        left = [one for one in places(file) if one not in drawn]
        if not left:
            del names[file]
            continue
        kind = rng.choice(sorted({one.kind for one in left}))
        drawn[rng.choice([one for one in left if one.kind == kind])] = None
    return list(drawn)


def clean_seconds(copy, judges, most):
    """{judge: seconds} of the sources as they are, which every judge must pass.

    Without those that take longer than `most`: a mutant that only they would kill survives.
    """
    kept = BUILD / "seconds.json"
    all_known = json.loads(kept.read_text()) if kept.exists() else {}
    known = all_known.setdefault(copy.digest, {})  # seconds, and whether it ended
    for judge in judges:
        limit = None if judge.first else most
        seconds, ended = known.get(str(judge), (0, False))
        if not ended and (limit is None or seconds < limit):
            code, output, seconds = copy.judge(judge, limit)
            if code:
                raise CleanError(f"without a mutant it fails: {judge}\n{output[-3000:]}")
            ended = code is not None
            known[str(judge)] = seconds, ended
            print(f"without a mutant {seconds:.0f} s: {judge}", flush=True)
            kept.write_text(json.dumps({copy.digest: known}))
        if not ended:
            print(f"not asked, it takes more than {seconds:.0f} s: {judge}")
    return {judge: known[str(judge)][0] for judge in judges if known[str(judge)][1]}


def judged(copy, mutant, judges, seconds):
    """(what became of the mutant, by whom) in a copy, which is then as it was.

    One of which the compiler makes the same code is none: nothing here can tell it.
    """
    judges = [judge for judge in judges if judge in seconds]
    path = copy.tree / mutant.file
    source, made = path.read_bytes(), None
    try:
        path.write_bytes(mutant.applied(source.decode("latin-1")).encode("latin-1"))
        order = {j: (not j.first, j.target == "operators", seconds[j]) for j in judges}
        # One process for all that need nothing else built: Python and MindSpore start once.
        for target, some in groupby(sorted(judges, key=order.get), key=attrgetter("target")):
            # A build of the operators is one of all else, too.
            if not mutant.file.endswith(".py") and target and made not in (target, "operators"):
                made = target
                if copy.make(made) == copy.clean[made]:
                    return "same code", made
            some = list(some)
            judge = Judge(tuple(test for one in some for test in one.tests), target)
            each, most = (PATIENCE[0] * f(map(seconds.get, some)) + PATIENCE[1] for f in (max, sum))
            code, output, _ = copy.judge(judge, most, each)
            if code is None or "+ Timeout +" in output:
                return "timed out", f"{len(some)} judges"
            if code and judge.target is None and " error: " in output and "-MMD" in output:
                return "not compiled", str(judge)
            if code not in (0, 5):
                return "killed", killer(output) or str(some[-1])
    except NotCompiled as error:
        return "not compiled", str(error)
    finally:
        path.write_bytes(source)
        if made == "operators":  # others are judged with them, too
            copy.make(made)
    return "survived", f"{len(judges)} judges"


def killer(output):
    """The first test that failed."""
    names = [
        line.split()[1] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    return names[0] if names else None


def prepared(copy, files, judges):
    """The copy with all that the judges load."""
    copy.update()
    copy.take_libraries()
    if any(not file.endswith(".py") for file in files):
        copy.configure()
        for target in {judge.target for judge in judges} - {None}:
            copy.clean[target] = copy.make(target)
    return copy


def report(results):
    """Lines that say how many of each folder were killed, and which survived."""
    folders = {}
    for mutant, state, _ in results:
        folders.setdefault(area_of(mutant.file), Counter())[state] += 1
    folders["all"] = sum(folders.values(), Counter())
    for folder, states in folders.items():
        found = sum(states[state] for state in KILLED)
        of = found + states["survived"]
        yield f"{folder}: {found} of {of} killed ({found / of if of else 1:.2f}), {dict(states)}"


def main(count, seed, copies, most, paths, quick=False):
    """Print what became of each mutant; how many survived."""
    files = files_of(paths)
    judges_for = partial(judges_of, ROOT, quick=quick)
    judges = list(dict.fromkeys(j for file in files for j in judges_for(file)))
    every = [prepared(Copy(BUILD / str(i)), files, judges) for i in range(copies)]
    lines = {path for path in paths if ":" in path}
    mutants = draw(every[0], files, count, seed, lines)
    needed = list(dict.fromkeys(j for one in mutants for j in judges_for(one.file)))
    seconds, free, results = clean_seconds(every[0], needed, most), SimpleQueue(), []
    for copy in every:
        free.put(copy)

    def one(mutant):
        source = read(ROOT / mutant.file)
        before, after = mutant.lines(source)
        why, started = EQUIVALENT.get((mutant.file, before, after)), time.monotonic()
        state, by = "equivalent", why
        if why is None:
            copy = free.get()
            try:
                state, by = judged(copy, mutant, judges_for(mutant.file), seconds)
            finally:
                free.put(copy)
        results.append((mutant, state, by))
        took = time.monotonic() - started
        where = f"{len(results)} of {len(mutants)} {mutant.place(source)} {mutant.kind}"
        print(f"{where}: {state} ({took:.0f} s)\n  - {before}\n  + {after}\n  {by}", flush=True)

    with ThreadPoolExecutor(copies) as pool:
        list(pool.map(one, mutants))
    print(*report(results), sep="\n")
    return sum(state == "survived" for _, state, _ in results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("-n", type=int, default=20, help="how many")
    parser.add_argument("-s", type=int, default=0, help="seed")
    parser.add_argument("-j", type=int, default=1, help="copies that work side by side")
    parser.add_argument("-t", type=float, help="most seconds of a judge; longer ones are not asked")
    parser.add_argument("-q", action="store_true", help="ask the quick judges only")
    parser.add_argument("path", nargs="*", help="folders, files or file:line; all that have judges")
    given = parser.parse_args()
    chosen = [str(Path(path)) for path in given.path] or [".", "cpu", "infer", "binding", "ascendc",
                                                          "mindspore_nsa"]  # fmt: skip
    try:
        sys.exit(1 if main(given.n, given.s, given.j, given.t, chosen, given.q) else 0)
    except CleanError as error:
        sys.exit(str(error))

"""Builds kernels with a fault and asks the kernels' own tests for it."""

import multiprocessing
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait

from twin.tests import builds as twin

from ..attention_checks import CALLS, calls_of, check_call
from ..builds import changed, unit
from ..launch import TwinError

FOLDER = twin.BUILD / "planted"
# A kernel with a fault may never end.
MOST_SECONDS = 300


class FaultError(Exception):
    """A fault that the compiler refuses, which says nothing of the tests."""


@dataclass(frozen=True)
class Kernel:
    """A kernel, the faults planted in it, and what should find them."""

    name: str  # of its folder and its entry
    library: str  # of the kernel without a fault, see builds.py
    sources: tuple  # of the runner
    runner: Callable  # of the path of a library
    faults: dict  # name: (file, what is replaced, by what[, data type])
    harmless: dict  # those that change nothing: why
    checks: Callable  # of a data type: {name: function of a runner}


def dtype_of(fault):
    """The data type that the kernel is compiled for."""
    return fault[3] if len(fault) > 3 else "float16"


def changed_text(name, fault):
    """The text of the file with the fault in it."""
    file, old, new = fault[:3]
    text = (twin.ROOT / file).read_text()
    assert text.count(old) == 1, f"{name}: {old!r} is in {file} {text.count(old)} times"
    assert old != new, f"{name} changes nothing"
    return text.replace(old, new)


def random_checks(make, seeds, dtype):
    """Checks of the tests of random configurations, for the seeds whose case has that type."""
    checks = {}
    for n in seeds:
        case = make(n)
        if case.dtype == dtype:
            checks[f"seed {n}"] = partial(check_call, case=case, calls=calls_of(n))
    return checks


def parity_checks(named, dtype):
    """Checks of the named cases that have that data type."""
    cases = {name: build() for name, build in named.items()}
    return {
        name: partial(check_call, case=case, calls=CALLS)
        for name, case in cases.items()
        if case.dtype == dtype
    }


def library(kernel, dtype, name="", fault=None):
    """Path of the kernel's library, with a fault or without."""
    sources = (unit(kernel.name, dtype), *(twin.ROOT / source for source in kernel.sources))
    folder = FOLDER / re.sub(r"\W+", "_", f"{kernel.name} {name or 'clean ' + dtype}")
    folder.mkdir(parents=True, exist_ok=True)
    if fault is not None:
        return changed(sources, kernel.library, folder, fault[0], changed_text(name, fault))
    return twin.linked(twin.objects(*sources, name=kernel.library), folder / "kernel.so")


def judged(runner, checks):
    """The first check that fails: (its name, the twin's message or its own), or None."""
    for name, check in checks.items():
        try:
            check(runner)
        except TwinError as error:
            return name, "twin: " + str(error)
        except AssertionError as error:
            lines = str(error).splitlines()
            return name, "test: " + (lines[-1] if lines else "assertion")
    return None


def clean_checks(kernel, dtype, most_seconds):
    """The checks that the kernel passes in so many seconds, the quick ones first."""
    runner = kernel.runner(library(kernel, dtype))
    seconds, checks = {}, kernel.checks(dtype)
    for name, check in checks.items():
        check(runner)  # keeps what the reference gives
        started = time.process_time()
        check(runner)
        seconds[name] = time.process_time() - started
    chosen = {}
    for name in sorted(checks, key=seconds.get):
        most_seconds -= seconds[name]
        if most_seconds >= 0:
            chosen[name] = checks[name]
    return chosen


def _child(kernel, name, checks, pipe):
    fault = kernel.faults[name]
    try:
        built = library(kernel, dtype_of(fault), name, fault)
    except AssertionError as error:
        pipe.send(FaultError(f"it does not compile\n{error}"))
        return
    pipe.send(judged(kernel.runner(built), checks))


def judge(kernel, names, at_a_time, most_seconds):
    """Yields (name of a fault, seconds, what finds it, a FaultError or None), several at a time."""
    checks = {}
    fork = multiprocessing.get_context("fork")
    waiting, running = list(names), {}
    while waiting or running:
        while waiting and len(running) < at_a_time:
            name = waiting.pop(0)
            dtype = dtype_of(kernel.faults[name])
            if dtype not in checks:
                checks[dtype] = clean_checks(kernel, dtype, most_seconds)
            receive, send = fork.Pipe(duplex=False)
            process = fork.Process(target=_child, args=(kernel, name, checks[dtype], send))
            process.start()
            send.close()
            running[receive] = (name, process, time.monotonic())
        left = min(started for _, _, started in running.values()) + MOST_SECONDS
        ready = wait(list(running), max(0, left - time.monotonic()))
        for receive in list(running):
            name, process, started = running[receive]
            seconds = time.monotonic() - started
            if receive in ready:
                try:
                    found = receive.recv()
                except EOFError:
                    process.join()
                    found = "process", f"ended with {process.exitcode}"
            elif seconds >= MOST_SECONDS:
                process.kill()
                found = "process", f"not ended after {MOST_SECONDS} s"
            else:
                continue
            process.join()
            receive.close()
            del running[receive]
            yield name, seconds, found

"""`make soak` runs what it draws, and reports what fails."""

import itertools
from types import SimpleNamespace

from tests import soak


def test_configurations_begin_with_the_seed_and_failures_are_counted(monkeypatch, capsys):
    numbers, clock = [], itertools.count()

    def check(number):
        numbers.append(number)
        assert number % 2, f"{number} is even"

    monkeypatch.setitem(soak.DRAWN, "kernels", lambda: [check])
    monkeypatch.setattr(soak, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    failures = soak.main(0.2, 3, ["kernels"])
    first = 3 * soak.DISTANCE
    assert numbers == list(range(first, first + len(numbers)))
    assert len(numbers) == 11  # seconds, of the 12 the first says when to end
    assert failures == sum(number % 2 == 0 for number in numbers)
    printed = capsys.readouterr().out
    assert f"kernels, number {first}: AssertionError: {first} is even" in printed
    assert printed.endswith(f"{failures} failures with seed 3\n")


def test_a_program_that_fails_is_a_failure(monkeypatch):
    monkeypatch.setattr(soak, "PROGRAMS", {"right": ("platform",), "wrong": ("no_such_module",)})
    assert soak.main(0, 1, ["right", "wrong"]) == 1


def test_every_kind_of_configuration_can_be_drawn():
    """One of each that needs no compiler."""
    for name in ("kernels", "public functions"):
        for check in soak.DRAWN[name]():
            check(soak.DISTANCE)

"""Interleaved measurement, so that a machine that slows down slows everything that is compared."""

import math
import statistics
import time

# Threads of one library wait actively for some time after a call; the next call is of another.
PAUSE = 0.02


# Shorter calls than this are repeated: a processor that has been idle starts slowly.
LONG = 0.1


def seconds(function, calls):
    """Median time of so many calls; of several, after one more."""
    time.sleep(PAUSE)
    if calls > 1:
        function()
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def interleave(functions, rounds, budget):
    """Call all functions in turn, after a warm-up of each.

    Args:
        functions: name -> function. The first two come in every round, the others only until they
            have used up their budget.
        rounds: Number of rounds.
        budget: Seconds that one of the other functions may take in all, its first round apart.

    Returns:
        name -> list of times, one per round; None where a function was left out.
    """
    for function in functions.values():
        function()
    calls = {name: math.ceil(LONG / seconds(f, 1)) for name, f in functions.items()}
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for place, (name, function) in enumerate(functions.items()):
            spent = sum(t for t in times[name] if t is not None)
            left_out = place > 1 and spent and spent + times[name][0] > budget
            times[name].append(None if left_out else seconds(function, calls[name]))
    return times


def median(times):
    """Median of the rounds that took part."""
    return statistics.median(t for t in times if t is not None)


def ratios(above, below):
    """The ratio of two times of one round, of the rounds in which both took part."""
    pairs = zip(above, below, strict=True)
    return [a / b for a, b in pairs if a is not None and b is not None]


def spread(values):
    """By how much rounds disagree: the largest over the smallest, less 1."""
    return max(values) / min(values) - 1


def median_ratio(above, below):
    """Median over the rounds of the ratio of two times of one round."""
    return statistics.median(ratios(above, below))

"""Gradients by finite differences."""


def check_gradient(function, x, gradient, rng, places=8, step=1e-6):
    """Assert that `gradient` is that of the scalar function() by the float64 array x.

    x is changed in place, at a few random places, by central differences.
    """
    assert gradient.shape == x.shape
    for _ in range(places):
        at = tuple(rng.integers(size) for size in x.shape)
        kept = x[at]
        x[at] = kept + step
        above = function()
        x[at] = kept - step
        below = function()
        x[at] = kept
        expected = (above - below) / (2 * step)
        assert abs(expected - gradient[at]) <= 1e-6 * (1 + abs(expected)), (at, expected)

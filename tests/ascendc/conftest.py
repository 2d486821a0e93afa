import pytest


@pytest.fixture(scope="session")
def runner():
    """The kernels on the twin."""
    from .builds import runner

    return runner()

import pytest


@pytest.fixture(scope="session")
def runner():
    """The kernels on the twin."""
    from .builds import runner

    return runner()


@pytest.fixture(scope="session")
def flash_runner():
    """FlashAttentionScore, likewise."""
    from .builds import flash_runner

    return flash_runner()


@pytest.fixture(scope="session")
def selected_runner():
    """NsaSelectedAttention and its gradient, likewise."""
    from .builds import selected_runner

    return selected_runner()


@pytest.fixture(scope="session")
def compress_attention_runner():
    """NsaCompressAttention, likewise."""
    from .builds import compress_attention_runner

    return compress_attention_runner()

"""Makes `ascendc_twin` importable where it is built in place, and the tests' own modules."""

import sys
from pathlib import Path

TWIN = Path(__file__).resolve().parents[1]

# Last, not first: where the package is installed, that is what the tests import.
sys.path += [str(TWIN.parent), str(TWIN)]


def pytest_report_header():
    """Says what is tested."""
    import ascendc_twin

    return f"ascendc_twin: {Path(ascendc_twin.__file__).parent}"

"""Which folder of the tests is being run, and how long each took: a plugin of pytest."""

import time
from collections import Counter

import pytest

USUAL = "some thirty minutes on two processors that have nothing else to do"


def _folder(test):
    """The folder of a test's id that stands in docs/testing.md."""
    return "/".join(test.split("::")[0].split("/")[:-1][:2])


class Progress:
    """Prints when a folder begins and when its last test is done; at the end the time of each."""

    def __init__(self, config):
        self._terminal = config.pluginmanager.get_plugin("terminalreporter")
        self._left = Counter()
        self._begun = {}
        self._tests = Counter()
        self._seconds = Counter()

    def _say(self, text):
        self._terminal.write(f"\n{text}\n")  # the line before may be one of dots

    def _collected(self, tests):
        self._left = Counter(map(_folder, tests))
        if len(self._left) < 2:
            self._left.clear()
            return
        self._say(f"{len(tests)} tests in {len(self._left)} folders; all of the tests take {USUAL}")

    def pytest_collection_finish(self, session):
        """Without processes of its own."""
        if session.items:
            self._collected([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        """In the process that hands out the tests; every other process collects them."""
        if not self._left and not self._begun:
            self._collected(ids)

    def pytest_runtest_logreport(self, report):
        """A test of a folder has begun or ended."""
        folder = _folder(report.nodeid)
        if folder not in self._left:
            return
        self._seconds[folder] += report.duration
        if folder not in self._begun:
            self._begun[folder] = time.monotonic()
            self._say(f"{folder}: {self._left[folder]} tests")
        if report.when == "teardown":
            self._tests[folder] += 1
            self._left[folder] -= 1
            if not self._left[folder]:
                seconds = time.monotonic() - self._begun[folder]
                self._say(f"{folder}: done after {seconds:.0f} s")

    def pytest_terminal_summary(self):
        """Seconds of the folders' tests with what they set up, so that growth is seen."""
        if not self._seconds:
            return
        total = sum(self._seconds.values())
        self._terminal.section("seconds by folder, of all processes together")
        for folder, seconds in self._seconds.most_common():
            share = f"{seconds:8.1f} s {seconds / total:6.1%}"
            self._terminal.line(f"{share}  {folder} ({self._tests[folder]} tests)")
        self._terminal.line(f"{total:8.1f} s  in all")

"""Run rdma-core's own tests of pyverbs on bee_0, and print how each ended.

    suite.py DIRECTORY [PREFIX...]

DIRECTORY has the suite, as the package `tests`. With prefixes, those tests alone run
whose names begin with one.
"""

import os
import sys
import time
import traceback
import unittest

DEVICE = 'bee_0'


class Lines(unittest.TestResult):
    """Prints one line for each test: its name, how it ended, and why."""

    def __init__(self):
        super().__init__()
        self.ended = None

    def startTest(self, test):
        super().startTest(test)
        self.ended, self.begun = None, time.monotonic()

    def addSkip(self, test, reason):
        self.ended = 'skipped', reason

    def addFailure(self, test, err):
        self.ended = 'failed', ''.join(traceback.format_exception(*err))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)

    def addExpectedFailure(self, test, err):
        self.ended = 'failed', 'it fails, as its authors expect'

    def addUnexpectedSuccess(self, test):
        self.ended = 'failed', 'it passes, as its authors do not expect'

    def stopTest(self, test):
        super().stopTest(test)
        how, why = self.ended or ('passed', f'{time.monotonic() - self.begun:.2f} s')
        print(test.id(), how, repr(why), flush=True)


def every(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from every(test)
        else:
            yield test


def main():
    directory, prefixes = sys.argv[1], tuple(sys.argv[2:])
    sys.dont_write_bytecode = True
    sys.path[:0] = [directory, os.path.join(directory, 'tests')]
    sys.argv[1:] = ['--dev', DEVICE]
    from args_parser import parser

    parser.parse_args()
    import tests
    from tests.base import RDMATestCase

    # The suite looks below /sys for the network interface of a device, which bee_0 has not.
    # Connections reach it by each address of its container.
    def addresses(self, dev, port, idx):
        self.args.append([dev, port, idx, '127.0.0.1', None])

    RDMATestCase._get_ip_mac = addresses
    chosen = unittest.TestSuite()
    for test in every(unittest.defaultTestLoader.loadTestsFromModule(tests)):
        if not prefixes or test.id().startswith(prefixes):
            chosen.addTest(test)
    chosen.run(Lines())


main()

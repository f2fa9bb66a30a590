"""The conformance matrix: every row against the real processes, and the page that has its table.

The rows are in tests/conformance/ (`make conformance` prints them).  A row that is void is no
better than one that fails: what it would have shown, nobody knows.
"""

import collections
import pathlib
import sys
import unittest

import wire

wire.keep_low_descriptors()

CONFORMANCE = pathlib.Path(__file__).resolve().parents[1] / "conformance"
sys.path.insert(0, str(CONFORMANCE))

import lab  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402
from lab import ATTACK, CONTROL, PROBE, Attempt, Row  # noqa: E402

TIMEOUT = 300  # of this file, for run.py
PAGE = wire.ROOT / "docs" / "CONFORMANCE.md"

# The rows of the matrix, with how many conditions each has.
MATRIX = {
    "forged-grant": 1, "hidden-tool": 1, "host-policy-denied": 1, "read-to-mutation": 1,
    "expired-grant": 1, "replayed-grant": 2, "revoked-mid-turn": 1, "expired-mid-turn": 1,
    "namespace-crossing": 1, "bounded-grant": 1, "usage-store-unavailable": 1,
    "authority-unavailable": 1, "tool-ceiling-escape": 1, "invalid-tool-result": 1,
    "budget-exceeded": 2, "grant-material": 1, "over-broad-delegation": 1,
    "rollback-unavailable": 1, "rollback-out-of-scope": 1, "broker-ungranted": 1,
    "broker-out-of-scope": 1, "catalogue-moved-mid-turn": 1, "escalation": 1,
    "escalation-refused": 1, "runtime-crashed": 1, "route-lease-revoked": 1,
    "record-completeness": 1, "typed-governed-views": 1, "replay-freshness": 1,
}
# D-19 names these, and no other row may be left out as not applicable.
LEFT_OUT = {"usage-store-unavailable", "route-lease-revoked", "typed-governed-views",
            "replay-freshness"}


@unittest.skipUnless(wire.program("caissond"), "caissond is not built")
class Matrix(unittest.TestCase):  # TU-33, TU-42, D-7, D-19
    @classmethod
    def setUpClass(cls):
        cls.results = lab.run(rows.ROWS, rows.WORLD)

    def test_every_row_is_as_it_should_be(self):
        for row, mode, grade, why, _ in self.results:
            with self.subTest(row=row.key(mode)):
                self.assertIn(grade, {lab.PASS, row.fixed}, why)

    def test_every_row_of_the_matrix_is_there_and_no_other(self):
        self.assertEqual(collections.Counter(row.name for row in rows.ROWS), MATRIX)

    def test_what_is_not_applicable_is_what_was_decided(self):
        self.assertEqual({row.name for row in rows.ROWS if row.fixed == lab.NOT_APPLICABLE},
                         LEFT_OUT)

    def test_what_depends_on_revocation_is_run_in_both_modes(self):
        modes = collections.defaultdict(set)
        for row, mode, *_ in self.results:
            modes[row.name].add(mode)
        self.assertEqual({name for name, seen in modes.items() if len(seen) == 2},
                         {"replayed-grant", "revoked-mid-turn"})

    def test_the_page_has_this_table(self):
        text = PAGE.read_text(encoding="utf-8")
        shown = text.partition(table.BEGIN + "\n")[2].partition(table.END)[0]
        self.assertEqual(shown.split("\n"), ["", *table.page_of(self.results)],
                         "make conformance writes it")


class Grades(unittest.TestCase):
    """What attempts amount to."""

    TABLE = [
        ("all as expected", [(ATTACK, "no", "no"), (CONTROL, "ok", "ok")], lab.PASS),
        ("an attack that succeeds", [(ATTACK, "no", "ok"), (CONTROL, "ok", "ok")], lab.FAIL),
        ("a probe that fails", [(PROBE, "ok", "no"), (CONTROL, "ok", "ok")], lab.FAIL),
        ("a control that fails", [(ATTACK, "no", "no"), (CONTROL, "ok", "no")], lab.VOID),
        ("both", [(ATTACK, "no", "ok"), (CONTROL, "ok", "no")], lab.VOID),
        ("one control of two", [(ATTACK, "no", "no"), (CONTROL, "ok", "ok"),
                                (CONTROL, "ok", "no")], lab.VOID),
        ("a control that was never made", [(ATTACK, "no", "no"), (CONTROL, "ok", None)], lab.VOID),
        ("no control", [(ATTACK, "no", "no")], lab.VOID),
        ("nothing", [], lab.VOID),
        ("an attack that was never made", [(ATTACK, "no", None), (CONTROL, "ok", "ok")],
         lab.NOT_EXERCISED),
        ("only controls", [(CONTROL, "ok", "ok")], lab.NOT_EXERCISED),
        ("one that failed beside one that was never made",
         [(ATTACK, "no", "ok"), (PROBE, "ok", None), (CONTROL, "ok", "ok")], lab.FAIL),
    ]

    def test_attempts_are_graded_as_the_source_grades(self):
        for name, attempts, expected in self.TABLE:
            with self.subTest(name):
                self.assertEqual(lab.grade([Attempt(role, "", want, got)
                                            for role, want, got in attempts])[0], expected)

    def test_a_row_whose_feature_is_missing_is_never_a_pass(self):
        def run(_):
            yield Attempt(CONTROL, "", "ok", "ok")
            raise lab.NotThere("later")
        self.assertEqual(Row("x", "y", run).grade(None), (lab.NOT_IMPLEMENTED, "later", []))


if __name__ == "__main__":
    unittest.main()

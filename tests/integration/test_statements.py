"""docs/STATEMENTS.md against the numbers that code and tests cite, and the tests that docs name."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\b(?:TU|OP|D)-[0-9]+\b")
RANGE = re.compile(r"\b(?:TU|OP|D)-[0-9]+ to (?:TU|OP|D)-[0-9]+\b")
SHOWN = re.compile(r"^\| ((?:TU|OP|D)-[0-9]+) \| [^|]+ \| ([^|]+) \|$", re.M)
UNSHOWN = re.compile(r"^\| ((?:TU|OP|D)-[0-9]+) \| [^|]+ \|$", re.M)
SOURCES = ("common", "supervisor", "worker", "broker", "ledger", "client", "gateway", "examples", "tools")

# The contracts for turns and for operations, whole.
CONTRACTS = [f"TU-{n}" for n in range(1, 73)] + [f"OP-{n}" for n in range(1, 43)]
NOT_APPLICABLE = re.compile(r"^\| ((?:TU|OP|D)-[0-9]+)[ ,|]", re.M)


def files(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".def", ".py", ".sh") and path.is_file():
                yield path


def cited(path):
    """A range names a chapter: it is no citation of what lies between its ends."""
    return set(NUMBER.findall(RANGE.sub("", path.read_text(encoding="utf-8"))))


class Statements(unittest.TestCase):
    def setUp(self):
        page = (ROOT / "docs" / "STATEMENTS.md").read_text(encoding="utf-8")
        self.rows = SHOWN.findall(page)
        self.shown, self.unshown = dict(self.rows), UNSHOWN.findall(page)
        page = (ROOT / "docs" / "CONFORMANCE.md").read_text(encoding="utf-8")
        self.left_out = set(NOT_APPLICABLE.findall(page.partition("\n## Not applicable\n")[2]))
        self.tests = {path.name: path for path in files("tests") if path.stem.startswith("test_")
                      and path != pathlib.Path(__file__).resolve()}

    def test_no_number_stands_for_two_statements(self):
        numbers = [number for number, _ in self.rows] + self.unshown
        self.assertEqual(sorted(numbers), sorted(set(numbers)))
        self.assertGreater(len(numbers), 40)  # the tables were found

    def test_they_stand_in_order_and_in_tables(self):
        for kind in ("TU", "OP", "D"):
            numbers = [int(number.partition("-")[2]) for number, _ in self.rows
                       if number.startswith(kind + "-")]
            self.assertEqual(numbers, sorted(numbers), kind)
        for number, names in self.rows:
            self.assertEqual(names.split(", "), sorted(names.split(", ")), number)
        text = (ROOT / "docs" / "STATEMENTS.md").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"^(?!\|).*\n\|(?! number \|)", text, re.M), [])

    def test_every_number_that_is_cited_stands_on_the_page(self):
        known = {*self.shown, *self.unshown, *self.left_out}
        for path in [*files(*SOURCES), *self.tests.values(), *(ROOT / "docs").glob("*.md")]:
            with self.subTest(file=str(path.relative_to(ROOT))):
                self.assertEqual(sorted(cited(path) - known), [])

    def test_every_statement_is_cited_by_the_tests_that_it_names(self):
        for number, names in self.shown.items():
            for name in names.split(", "):
                with self.subTest(number=number, test=name):
                    self.assertIn(name, self.tests)
                    self.assertIn(number, cited(self.tests[name]))

    def test_what_no_test_shows_is_cited_by_none(self):
        for name, path in self.tests.items():
            with self.subTest(test=name):
                self.assertEqual(sorted(cited(path) & set(self.unshown)), [],
                                 "shown now: give it its row among the first tables")

    def test_every_number_of_a_contract_is_shown_or_left_out_with_a_reason(self):
        self.assertIn("OP-3", self.left_out)  # the table was found
        self.assertEqual(sorted(self.left_out & set(self.shown)), ["OP-13"])  # one half of it
        self.assertEqual([n for n in CONTRACTS if n not in {*self.shown, *self.left_out}], [])


class Pages(unittest.TestCase):
    """Tests and functions that a page names are there."""

    def test_every_test_that_a_page_names_exists(self):
        known = "".join(path.read_text(encoding="utf-8")
                        for path in files("tests") if path.stem.startswith("test_"))
        for page in (ROOT / "docs").glob("*.md"):
            text = page.read_text(encoding="utf-8")
            for name in re.findall(r"\b(test_[a-z_]+\.(?:c|py))\b", text):
                with self.subTest(page=page.name, file=name):
                    self.assertTrue([p for p in files("tests") if p.name == name])
            for name in re.findall(r"`(test_[a-z0-9_]+|(?:a|an|every|the)_[a-z0-9_]+)`", text):
                with self.subTest(page=page.name, test=name):
                    self.assertRegex(known, rf"\b{name}\(|START_TEST\({name}\)")

    def test_every_function_of_a_call_s_life_exists(self):
        page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
        life = page.partition("\n## A call's life\n")[2].partition("\n## ")[0]
        code = "".join(path.read_text(encoding="utf-8") for path in files(*SOURCES))
        first = "".join(row.split("|")[1] for row in life.splitlines() if row.startswith("| "))
        functions = re.findall(r"`([a-z]+_[a-z_]+)`", first)
        self.assertGreater(len(functions), 20)
        for name in functions:
            with self.subTest(function=name):
                self.assertRegex(code, rf"(?m)^{name}\(")
        for name in re.findall(r"`([a-z_/]+\.c)`", life):
            with self.subTest(file=name):
                self.assertTrue([p for p in files(*SOURCES) if str(p).endswith("/" + name)])


if __name__ == "__main__":
    unittest.main()

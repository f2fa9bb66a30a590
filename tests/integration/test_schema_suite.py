"""JSON Schema draft-07 as others see it: the official suite and a second implementation.

The suite is Debian's json-schema-test-suite, the second opinion python3-jsonschema; the broker's
own code answers through tests/programs/schema_check.c.
"""

import importlib.util
import json
import pathlib
import random
import re
import subprocess
import unittest

from wire import program

SUITE = pathlib.Path("/usr/share/json-schema-test-suite/tests/draft7")
HERE = pathlib.Path(__file__).resolve().parent
SEED = 20240607
SCHEMAS = 2000

REMOTE = "is not # or #/..., which is all that is offered"
SCOPE = "below the root is not offered"
# (file, group): why it is refused when it is declared, as it must be then.
REFUSED = {
    ("definitions.json", "valid definition"): REMOTE,  # the metaschema is another document
    ("definitions.json", "invalid definition"): REMOTE,
    ("ref.json", "escaped pointer ref"): "is not a keyword of draft-07",  # at the root
    ("ref.json", "remote ref, containing refs itself"): REMOTE,
    ("ref.json", "Recursive references between schemas"): SCOPE,
    ("refRemote.json", "remote ref"): REMOTE,
    ("refRemote.json", "fragment within remote ref"): REMOTE,
    ("refRemote.json", "ref within remote ref"): REMOTE,
    ("refRemote.json", "base URI change"): SCOPE,
    ("refRemote.json", "base URI change - change folder"): SCOPE,
    ("refRemote.json", "base URI change - change folder in subschema"): SCOPE,
    ("refRemote.json", "root ref in remote ref"): REMOTE,
}
# Optional files of keywords that check nothing unless somebody asks for it: all must pass.
ANNOTATIONS = ("content.json", "ecmascript-regex.json")  # the latter by "format"
# Integers beyond 64 bits can be in no message.
BIGNUM = "bignum.json"


class Checker:
    """The broker's schemas, one question at a time."""

    def __init__(self):
        self.process = subprocess.Popen([program("program/schema_check")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, schema, *values):
        line = json.dumps({"schema": schema, "values": values})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


class Case(unittest.TestCase):
    def setUp(self):
        self.checker = Checker()
        self.ask = self.checker.ask

    def tearDown(self):
        self.assertEqual(self.checker.close(), 0)


def groups(folder):
    for path in sorted(folder.glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            yield path.name, group


@unittest.skipUnless(SUITE.is_dir(), "needs json-schema-test-suite (Debian)")
class Suite(Case):
    def answer(self, group):
        return self.ask(group["schema"], *[t["data"] for t in group["tests"]])

    def compare(self, name, group):
        answer = self.answer(group)
        for test, result in zip(group["tests"], answer.get("results", [answer] * 99)):
            self.assertEqual(result == "", test["valid"],
                             f"{name}: {group['description']}: {test['description']}: {result}")

    def test_every_required_test_is_answered_or_refused_with_a_reason(self):
        refused = set()
        for name, group in groups(SUITE):
            with self.subTest(file=name, group=group["description"]):
                key = (name, group["description"])
                if key not in REFUSED:
                    self.compare(name, group)
                    continue
                refused.add(key)
                self.assertIn(REFUSED[key], self.answer(group)["refused"])
        self.assertEqual(refused, set(REFUSED))

    def test_of_the_optional_ones_nothing_is_answered_wrongly(self):
        for name, group in groups(SUITE / "optional"):
            with self.subTest(file=name, group=group["description"]):
                if name == BIGNUM:
                    self.assertRegex(self.answer(group).get("unreadable", "too big"), "too big")
                elif name in ANNOTATIONS:
                    self.assertEqual(set(self.answer(group)["results"]), {""})
                else:
                    self.compare(name, group)

    def test_a_format_is_told_and_never_checked(self):
        for name, group in groups(SUITE / "optional" / "format"):
            with self.subTest(file=name, group=group["description"]):
                self.assertEqual(set(self.answer(group)["results"]), {""})


class Dice:
    """Schemas and values at random.

    Numbers are small and binary fractions, true and false never stand where 1 or 0 could, and
    patterns are such that Python's re means the same by them: what is compared is the keywords.
    """

    NAMES = ("a", "b", "ab", "c d", "é", "x/y", "~")
    TEXTS = ("", "a", "b", "ab", "abc", "漢字", "🌊", "aé", "A1", "7")
    NUMBERS = (2, 3, 4, 6, 7, -2, 2.0, 2.5, 3.5, -1.5, 1e3, 10**15)
    PATTERNS = ("a", "^a", "b$", "^[a-c]+$", "^.$", r"\d", "^(a|bc)*$", "[^a]", "^a?b{1,2}$", "[A-Z]")
    TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.pick = self.random.choice

    def count(self, most):
        return self.random.randrange(most + 1)

    def value(self, depth=3):
        kind = self.count(9 if depth > 0 else 5)
        if kind == 0:
            return self.pick((None, True, False))
        if kind <= 2:
            return self.pick(self.NUMBERS)
        if kind <= 5:
            return self.pick(self.TEXTS)
        if kind <= 7:
            return [self.value(depth - 1) for _ in range(self.count(4))]
        return {self.pick(self.NAMES): self.value(depth - 1) for _ in range(self.count(4))}

    def names(self):
        return self.random.sample(self.NAMES, self.count(3))

    def schemas(self, depth):
        return [self.schema(depth) for _ in range(1 + self.count(2))]

    def keyword(self, depth):
        simple = {
            "type": lambda: self.pick((self.pick(self.TYPES), self.random.sample(self.TYPES, 2))),
            "enum": lambda: [self.value(2) for _ in range(1 + self.count(5))],
            "const": lambda: self.value(2),
            "multipleOf": lambda: self.pick((2, 3, 0.5, 2.0)),
            "minimum": lambda: self.pick(self.NUMBERS),
            "maximum": lambda: self.pick(self.NUMBERS),
            "exclusiveMinimum": lambda: self.pick(self.NUMBERS),
            "exclusiveMaximum": lambda: self.pick(self.NUMBERS),
            "minLength": lambda: self.count(3), "maxLength": lambda: self.count(3),
            "pattern": lambda: self.pick(self.PATTERNS),
            "minItems": lambda: self.count(3), "maxItems": lambda: self.count(3),
            "uniqueItems": lambda: self.pick((True, False)),
            "required": self.names,
            "minProperties": lambda: self.count(3), "maxProperties": lambda: self.count(3),
            "title": lambda: "t", "format": lambda: "email", "default": lambda: self.value(1),
            "$ref": lambda: self.pick(("#", "#/definitions/a", "#/definitions/b")),
        }
        deep = {
            "items": lambda: self.pick((self.schema, self.schemas))(depth - 1),
            "additionalItems": lambda: self.schema(depth - 1),
            "contains": lambda: self.schema(depth - 1),
            "properties": lambda: {n: self.schema(depth - 1) for n in self.names()},
            "patternProperties": lambda: {self.pick(self.PATTERNS): self.schema(depth - 1)},
            "additionalProperties": lambda: self.schema(depth - 1),
            "propertyNames": lambda: self.schema(depth - 1),
            "dependencies": lambda: {n: self.pick((self.names(), self.schema(depth - 1)))
                                     for n in self.names()},
            "allOf": lambda: self.schemas(depth - 1), "anyOf": lambda: self.schemas(depth - 1),
            "oneOf": lambda: self.schemas(depth - 1), "not": lambda: self.schema(depth - 1),
            "if": lambda: self.schema(depth - 1), "then": lambda: self.schema(depth - 1),
            "else": lambda: self.schema(depth - 1),
        }
        name = self.pick([*simple, *deep] if depth > 0 else list(simple))
        return name, {**simple, **deep}[name]()

    def schema(self, depth=3):
        if self.count(9) == 0:
            return self.pick((True, False))
        return dict(self.keyword(depth) for _ in range(self.count(4)))

    def document(self):
        schema = self.schema()
        if isinstance(schema, bool):
            return schema
        return {**schema, "definitions": {"a": self.schema(2), "b": self.schema(1)}}


@unittest.skipUnless(importlib.util.find_spec("jsonschema"), "needs python3-jsonschema (Debian)")
class SecondOpinion(Case):
    CIRCLES = re.compile("refers to itself for the same value|leads back to itself|"
                         "is composed more than 16 deep")

    def test_random_schemas_mean_the_same_to_both(self):
        from jsonschema import Draft7Validator
        dice = Dice(SEED)
        compared = passed = circles = silent = 0
        for i in range(SCHEMAS):
            schema = dice.document()
            values = [dice.value() for _ in range(8)]
            answer = self.ask(schema, *values)
            if "refused" in answer:
                self.assertRegex(answer["refused"], self.CIRCLES, f"{i}: {schema}")
                circles += 1
                continue
            theirs = Draft7Validator(schema)
            for value, result in zip(values, answer["results"]):
                try:
                    valid = theirs.is_valid(value)
                except TypeError:  # additionalItems beside a boolean items; lists sorted with numbers
                    silent += 1
                    continue
                self.assertEqual(result == "", valid,
                                 f"{i}: {json.dumps(schema)}: {json.dumps(value)}: {result}")
                compared += 1
                passed += valid
        # Neither side is answered by default, and circles are the exception.
        self.assertGreater(min(passed, compared - passed), compared // 10)
        self.assertLess(circles, SCHEMAS // 4)
        self.assertLess(silent, compared // 50)

    def test_what_their_metaschema_refuses_is_refused(self):
        from jsonschema import Draft7Validator
        dice, bad = Dice(SEED + 1), 0
        for i in range(500):
            schema = dice.document()
            if isinstance(schema, bool) or "$ref" in schema:
                continue
            name, _ = dice.keyword(1)
            schema[name] = dice.value(1)
            if Draft7Validator(Draft7Validator.META_SCHEMA).is_valid(schema):
                continue
            bad += 1
            self.assertIn("refused", self.ask(schema), f"{i}: {json.dumps(schema)}")
        self.assertGreater(bad, 100)


class Patterns(Case):
    """Against Python's re, where it means what ECMA-262 means."""

    ATOMS = ("a", "b", "c", ".", "[ab]", "[^a]", "[b-d]", r"\d", r"\w", r"\W", r"\D", "é", "-",
             "1", r"\.", r"\x61", r"\u00e9", "[a-]", r"[\w-]", "(?:)")
    ASSERTIONS = ("^", "$", r"\b", r"\B")
    REPEATS = ("*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??", "{1,2}?")

    def pattern(self, dice, depth=3):
        if depth == 0:
            return dice.pick(self.ATOMS)
        parts = []
        for _ in range(dice.count(4)):
            roll = dice.count(9)
            if roll == 0:
                parts.append(dice.pick(self.ASSERTIONS))
            elif roll <= 2:
                parts.append(f"({self.pattern(dice, depth - 1)})" + dice.pick(self.REPEATS))
            elif roll == 3:
                parts.append(f"(?:{self.pattern(dice, depth - 1)}|{self.pattern(dice, depth - 1)})")
            elif roll <= 6:
                parts.append(dice.pick(self.ATOMS) + dice.pick(self.REPEATS))
            else:
                parts.append(dice.pick(self.ATOMS))
        return "".join(parts)

    def test_random_patterns_match_the_same(self):
        dice = Dice(SEED + 2)
        matched = compared = 0
        for _ in range(SCHEMAS):
            pattern = self.pattern(dice)
            texts = ["".join(dice.pick("abcd1-é.") for _ in range(dice.count(6)))
                     for _ in range(10)]
            # There $ also matches before a last newline; no text has one.
            theirs = re.compile(pattern, re.ASCII)
            for text, result in zip(texts, self.ask({"pattern": pattern}, *texts)["results"]):
                if text == "" and r"\B" in pattern:
                    continue  # of which Python says that it never matches there
                found = theirs.search(text) is not None
                self.assertEqual(result == "", found, f"{pattern!r} {text!r}")
                compared += 1
                matched += found
        self.assertGreater(min(matched, compared - matched), compared // 10)

    def test_patterns_mean_what_ecma_262_says(self):
        for pattern, text, expected in (
                ("^a$", "a\n", False), ("^.$", "\n", False), ("^.$", "\u2028", False),
                ("^.$", "\x0b", True), ("^.$", "\U0001f30a", True), (r"^\s$", "\u00a0", True),
                (r"^\s$", "\ufeff", True), (r"^\S$", "\u3000", False), (r"^\d$", "\u0663", False),
                (r"^\w$", "é", False), (r"^[^\d]$", "\u0663", True), ("^[^]$", "\n", True),
                ("[]", "a", False), (r"^[\b]$", "\b", True), (r"^\cJ$", "\n", True),
                (r"^\0$", "\0", True), (r"^\u{1F30A}$", "\U0001f30a", True),
                (r"^\ud83c\udf0a$", "\U0001f30a", True), (r"^[\ud83c\udf0a]$", "\U0001f30a", True),
                ("^\U0001f30a*$", "\U0001f30a\U0001f30a", True), ("^{}$", "{}", True),
                ("^a{,2}$", "a{,2}", True), ("^a{x}]$", "a{x}]", True), (r"^[\w-.]+$", "a-.", True),
                (r"^\/\-\_\@$", "/-_@", True), ("(?<year>[0-9]{4})", "in 1999", True),
                (r"^[\s\S]{3}$", "\n\u2028\U0001f30a", True), ("", "", True), ("|x", "", True),
                ("^(?:a|)$", "", True), ("(^a|b$)", "ab", True), ("x^", "x", False),
                ("(?:)*", "", True), ("(a*)*b", "aaab", True), (r"\bé", "é", False),
                ("^[\u00e0-\u00ff]+$", "éà", True), ("[^\u00e0-\u00ff]", "éà", False)):
            with self.subTest(pattern=pattern, text=text):
                self.assertEqual(self.ask({"pattern": pattern}, text)["results"][0] == "", expected)

    def test_what_no_automaton_matches_is_refused_when_declared(self):
        for pattern, why in (
                (r"(a)\1", "has a back reference, which is not offered"),
                (r"(?<n>a)\k<n>", "has a back reference, which is not offered"),
                (r"\01", "has a back reference, which is not offered"),
                ("a(?=b)", "looks ahead or behind, which is not offered"),
                ("a(?!b)", "looks ahead or behind, which is not offered"),
                ("(?<=a)b", "looks ahead or behind, which is not offered"),
                ("(?<!a)b", "looks ahead or behind, which is not offered"),
                (r"\p{L}", r"has \p, which is not offered"),
                (r"a\Z", "has an escape that ECMA-262 does not know"),
                (r"\A", "has an escape that ECMA-262 does not know"),
                (r"[\B]", "has an escape that ECMA-262 does not know"),
                ("(?i)a", "has a kind of group that ECMA-262 does not know"),
                ("(?>a)", "has a kind of group that ECMA-262 does not know"),
                ("(?P<n>a)", "has a kind of group that ECMA-262 does not know"),
                ("(?<>a)", "has a group with a name that is none"),
                ("*a", "has nothing to repeat"), ("a**", "has nothing to repeat"),
                ("a*+", "has nothing to repeat"), ("^*", "has nothing to repeat"),
                ("(+)", "has nothing to repeat"), ("{2}", "has nothing to repeat"),
                ("(a", "has a group without its end"), ("a)", "has a ) too many"),
                ("[a", "has a class without its end"), ("[", "has a class without its end"),
                ("[b-a]", "has a range that ends before it begins"),
                ("a{2,1}", "has a range that ends before it begins"),
                ("a\\", "ends with a backslash"), (r"\u12", "has an escape without its digits"),
                (r"\u{}", "has an escape without its digits"), (r"\xg0", "has an escape without its digits"),
                (r"\u{110000}", "has a character beyond U+10FFFF"),
                (r"\ud800", "has half of a surrogate pair"), (r"\udc00", "has half of a surrogate pair"),
                (r"\c1", r"has \c without a letter"),
                ("a{20000}", "repeats so much that it is too large"),
                ("((a{99}){99}){99}", "repeats so much that it is too large"),
                ("(){99999999}", "repeats so much that it is too large"),
                ("(" * 33 + ")" * 33, "nests more than 32 groups"),
                ("a" * 4097, "is longer than 4096 bytes")):
            with self.subTest(pattern=pattern[:40]):
                self.assertEqual(self.ask({"pattern": pattern}), {"refused": f"/pattern: {why}"})

    def test_a_hostile_pattern_costs_no_more_than_another(self):
        text = "a" * 3000 + "!"
        for pattern in ("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*(.*)*(.*)*x", "^(([a-z])+.)+[A-Z]$"):
            with self.subTest(pattern=pattern):
                self.assertIn("does not match", self.ask({"pattern": pattern}, text)["results"][0])


class Field(Case):
    """What generators of tool schemas write."""

    SHIPPED = (
        # zod-to-json-schema
        ({"type": "object", "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array", "items": {
                "type": "object", "properties": {
                    "oldText": {"type": "string", "description": "must match"},
                    "newText": {"type": "string"}},
                "required": ["oldText", "newText"], "additionalProperties": False}},
            "dryRun": {"type": "boolean", "default": False}},
          "required": ["path", "edits"], "additionalProperties": False,
          "$schema": "http://json-schema.org/draft-07/schema#"},
         {"path": "a", "edits": [{"oldText": "x", "newText": "y"}]},
         {"path": "a", "edits": [{"oldText": "x"}]}),
        # TypeScript types by reference
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/Input",
          "definitions": {
              "Input": {"type": "object", "required": ["filter"],
                        "properties": {"filter": {"$ref": "#/definitions/Filter"}}},
              "Filter": {"anyOf": [
                  {"type": "object", "required": ["and"], "additionalProperties": False,
                   "properties": {"and": {"type": "array", "items": {"$ref": "#/definitions/Filter"}}}},
                  {"type": "object", "required": ["is"], "additionalProperties": False,
                   "properties": {"is": {"type": ["string", "number", "null"]}}}]}}},
         {"filter": {"and": [{"is": 1}, {"and": []}, {"is": None}]}},
         {"filter": {"and": [{"is": 1}, {"and": [{"is": True}]}]}}),
        # pydantic
        ({"title": "Args", "type": "object", "properties": {
            "url": {"title": "Url", "type": "string", "format": "uri", "minLength": 1},
            "max": {"title": "Max", "default": 5000, "exclusiveMinimum": 0,
                    "exclusiveMaximum": 1000000, "type": "integer"},
            "when": {"anyOf": [{"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}, {"type": "null"}],
                     "default": None}},
          "required": ["url"]},
         {"url": "x", "max": 7, "when": "2024-01-31"}, {"url": "x", "when": "2024-1-31"}))

    def test_schemas_of_the_field_are_taken_and_enforced(self):
        for schema, good, bad in self.SHIPPED:
            with self.subTest(schema=json.dumps(schema)[:60]):
                results = self.ask(schema, good, bad)["results"]
                self.assertEqual(results[0], "")
                self.assertNotEqual(results[1], "")

    def test_a_refusal_never_tells_the_value(self):  # D-12
        secret = "hunter2-swordfish"
        for schema, value in (
                ({"type": "integer"}, secret), ({"enum": ["a"]}, secret), ({"maxLength": 3}, secret),
                ({"pattern": "^x"}, secret), ({"additionalProperties": False}, {secret: 1}),
                ({"additionalProperties": {"type": "null"}}, {secret: secret}),
                ({"patternProperties": {"h": False}}, {secret: 1}),
                ({"propertyNames": {"maxLength": 2}}, {secret: 1}),
                ({"items": {"const": 1}}, [secret]), ({"uniqueItems": True}, [secret, secret]),
                ({"additionalProperties": {"additionalProperties": False}}, {"a": {secret: 1}})):
            with self.subTest(schema=schema):
                result = self.ask(schema, value)["results"][0]
                self.assertNotEqual(result, "")
                self.assertNotIn("hunter2", result)


if __name__ == "__main__":
    unittest.main()

"""Which tests can fail, read from their source."""

from __future__ import annotations

import pytest

from agentos.workflows.implementation.assertions import without_assertion

HELPERS = {"tests/helpers.py": "def looks_right(x):\n    assert x\n\n\ndef check_nothing(x):\n    print(x)\n"}


@pytest.mark.parametrize(
    "body",
    [
        "assert double(2) == 4",
        "assert [*double(2)]",
        "assert {**double(2)}",
        "assert f'{double(2)}'",
        "assert [n for n in double(2)]",
        "with pytest.raises(ValueError):\n        double(None)",
        "with pytest.warns(UserWarning):\n        double(None)",
        "with raises(ValueError, match='x'):\n        double(None)",
        "looks_right(double(2))",
        "np.testing.assert_allclose(double(2), 4)",
        "mock.assert_called_once_with(2)",
        "if double(2) != 4:\n        pytest.fail('not doubled')",
        "for n in range(3):\n        assert double(n) == n * 2",
        "async def inner():\n        assert await double(2) == 4\n    asyncio.run(inner())",
        "if double(2) != 4:\n        raise AssertionError('no')",
        "try:\n        double(2)\n    except ValueError:\n        assert caught()",
    ],
)
def test_a_test_that_says_what_must_hold_is_taken(body: str) -> None:
    assert without_assertion(f"def test_x():\n    {body}\n", HELPERS) == ()


@pytest.mark.parametrize(
    "body",
    [
        "double(2)",
        "pass",
        "assert True",
        "assert 1 == 1",
        "assert 'text'",
        "assert (double(2) == 4, 'a tuple is always true')",
        "assert [double(2) == 4]",
        "assert {double(2) == 4}",
        "assert {'is right': double(2) == 4}",
        "assert lambda: double(2) == 4",
        "assert (double(n) == 4 for n in range(3))",
        "assert f'{double(2)} is right'",
        "assert double(2) == double(2)",
        "assert double(2) == 4 or True",
        "return double(2) == 4",
        "double(2)\n    return\n    assert double(2) == 4",
        "if False:\n        assert double(2) == 4",
        "check_nothing(double(2))",
        "def inner():\n        assert double(2) == 4",
        "print('assert double(2) == 4')",
        "self.assertTrue(True)",
    ],
)
def test_a_test_that_cannot_fail_is_named(body: str) -> None:
    assert without_assertion(
        f"class TestA:\n    def test_x(self):\n        {body.replace(chr(10), chr(10) + '    ')}\n", HELPERS
    ) == ("TestA::test_x",)


def test_unittest_classes_are_read_whatever_they_are_called_and_old_tests_are_not_asked_again() -> None:
    source = (
        "class Doubles(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(double(2), 4)\n"
        "    def test_b(self):\n        double(2)\n"
    )
    assert without_assertion(source, {}) == ("Doubles::test_b",)
    assert without_assertion(source, {}, former=source) == ()
    assert without_assertion("def test_x(:", {}) == ()


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        ("check_double(4, twice)", False),
        ("double.check(4, twice)", False),
        ("checks = Checks()\n    checks.expect(twice)", False),
        ("double.send.assert_called_once_with(twice)", True),
        ("checks = Checks()\n    assert checks.expect(twice)", True),
        ("kept.assert_equal(double(4), twice)", True),
        ("with pytest.raises(ValueError):\n        check_double(4, twice)", True),
    ],
)
def test_what_is_under_test_asserts_nothing_whatever_it_is_called(body: str, counts: bool) -> None:
    source = (
        "from tally.checks import check_double, Checks\nfrom tally import double\nfrom tally import kept\n\n\n"
        f"def test_x(twice):\n    {body}\n"
    )
    found = without_assertion(source, {}, under_test={"tally.checks", "tally.double"})
    assert found == (() if counts else ("test_x",))

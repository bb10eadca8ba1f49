# SPDX-License-Identifier: Apache-2.0
"""The formulas of `filter_function` and `goodness_function`: arithmetic, comparisons and `a ? b : c`, nothing else.

The operators and names are those that the documentation of Manila's back ends uses: `capabilities.x`, `stats.x`,
`share.x`, `extra.x`; `+ - * / ^`, `< <= > >= == != <>`, `and or not` (`&& || !` too), `abs min max`. pyparsing reads
them, as it does there, so a formula in an operator's configuration means here what it meant. Nothing reaches `eval`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyparsing import ParserElement, ParseResults

Names = Mapping[str, Mapping[str, object]]
Formula = Callable[[Names], Any]

LONGEST = 1000


class Broken(ValueError):
    """The formula cannot be read or has no value here."""


def evaluate(text: str, names: Names) -> Any:
    """The value of the formula: a number, a boolean or text. Raises `Broken` with what is wrong."""
    try:
        value = _compiled(text)(names)
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise Broken(str(error)) from None
    if isinstance(value, float) and math.isnan(value):
        raise Broken("the result is not a number")
    return value


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> Formula:
    import pyparsing

    if len(text) > LONGEST:
        raise Broken(f"a formula has at most {LONGEST} characters")
    try:
        formula: Formula = _grammar().parse_string(text, parse_all=True)[0]
    except pyparsing.ParseException as error:
        raise Broken(f"cannot be read at character {error.column}: {text!r}") from None
    return formula


@functools.cache
def _grammar() -> ParserElement:
    """The grammar; each match becomes a function of the names."""
    import pyparsing as pp

    number = pp.common.number().set_parse_action(lambda found: _constant(float(found[0])))
    text = pp.QuotedString("'") | pp.QuotedString('"')
    text.set_parse_action(lambda found: _constant(found[0]))
    said = (pp.CaselessKeyword("true") | pp.CaselessKeyword("false")).set_parse_action(
        lambda found: _constant(found[0].lower() == "true")
    )
    name = pp.Regex(r"(capabilities|stats|share|extra)\.[\w:.\-]+").set_parse_action(lambda found: _name(found[0]))
    formula = pp.Forward()
    call = pp.one_of("abs min max") + pp.Suppress("(") + pp.DelimitedList(formula) + pp.Suppress(")")
    call.set_parse_action(lambda found: _call(found[0], list(found[1:])))
    conjunction = pp.one_of("&& &") | pp.CaselessKeyword("and")
    disjunction = pp.one_of("|| |") | pp.CaselessKeyword("or")
    negation = pp.Literal("!") + ~pp.Literal("=") | pp.CaselessKeyword("not")
    formula <<= pp.infix_notation(  # type: ignore[no-untyped-call]
        call | number | said | name | text,
        [
            ("^", 2, pp.opAssoc.RIGHT, _binary),
            (pp.one_of("+ -"), 1, pp.opAssoc.RIGHT, _sign),
            (pp.one_of("* /"), 2, pp.opAssoc.LEFT, _binary),
            (pp.one_of("+ -"), 2, pp.opAssoc.LEFT, _binary),
            (pp.one_of("<= >= < > == != <>"), 2, pp.opAssoc.LEFT, _binary),
            (negation, 1, pp.opAssoc.RIGHT, lambda found: _negated(found[0][-1])),
            (conjunction, 2, pp.opAssoc.LEFT, lambda found: _all(found[0][::2])),
            (disjunction, 2, pp.opAssoc.LEFT, lambda found: _any(found[0][::2])),
            (("?", ":"), 3, pp.opAssoc.RIGHT, _choice),
        ],
    )
    return formula.streamline()  # all its lasting changes are made here, so threads may read with it at once


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": math.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max}


def _constant(value: object) -> Formula:
    return lambda names: value


def _name(dotted: str) -> Formula:
    scope, _, key = dotted.partition(".")

    def value(names: Names) -> object:
        found = names.get(scope, {}).get(key)
        if found is None:
            raise Broken(f"{dotted} is not known here")
        return _plain(found)

    return value


def _plain(value: object) -> object:
    """Text that says a number counts as one: extra specs are text."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _binary(found: ParseResults) -> Formula:
    terms = list(found[0])
    result: Formula = terms[0]
    for sign, term in zip(terms[1::2], terms[2::2], strict=True):
        result = _apply(sign, result, term)
    return result


def _apply(sign: str, left: Formula, right: Formula) -> Formula:
    function = _OPERATORS[sign]
    return lambda names: function(left(names), right(names))


def _sign(found: ParseResults) -> Formula:
    sign, term = found[0][0], found[0][-1]
    return (lambda names: -term(names)) if sign == "-" else term


def _negated(term: Formula) -> Formula:
    return lambda names: not term(names)


def _all(terms: Sequence[Formula]) -> Formula:
    return lambda names: all(term(names) for term in terms)


def _any(terms: Sequence[Formula]) -> Formula:
    return lambda names: any(term(names) for term in terms)


def _choice(found: ParseResults) -> Formula:
    condition, _, then, _, otherwise = found[0]
    return lambda names: then(names) if condition(names) else otherwise(names)


def _call(function: str, terms: list[Formula]) -> Formula:
    return lambda names: _FUNCTIONS[function](*(term(names) for term in terms))

"""Problems of a description: collected together, each with its path and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import zip_longest
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from twinloop.description.address import address_from_path, address_to_path, suggest_name
from twinloop.description.document import Address, ParsedDocument
from twinloop.description.errors import InputError
from twinloop.description.quantities import number_to_text, quote_value

#: Number of problems that the text of an error lists.
_MAX_LISTED = 20


class DescriptionError(InputError):
    """A description is invalid; `problems` has all errors, and the other fields those of the first.

    >>> from twinloop.platform import Platform
    >>> text = "clusters:\\n- hosts:\\n  - cores: 0\\n    core: 8\\n"
    >>> try:
    ...     Platform.from_text(text, file="p.yaml")
    ... except DescriptionError as error:
    ...     print(error)
    p.yaml:3: clusters[0].hosts[0].cores: must be positive, not 0 [TL0206]
    p.yaml:4: clusters[0].hosts[0].core: is not a field of the host (did you mean 'cores'?) [TL0203]
    """

    __module__ = "twinloop.description"

    def __init__(self, problems: Iterable[InputError]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(
            first.problem,
            kind=first.kind,
            file=first.file,
            line=first.line,
            field=first.field,
            remedy=first.remedy,
        )

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:_MAX_LISTED]]
        if len(self.problems) > _MAX_LISTED:
            lines.append(f"and {len(self.problems) - _MAX_LISTED} more")
        return "\n".join(lines)

    def __reduce__(self) -> Any:
        return type(self), (self.problems,)


class ProblemCollector:
    """Collector of problems that concern several fields, each of which is valid by itself."""

    def __init__(self) -> None:
        self._problems: list[InitErrorDetails] = []

    def add(self, address: Address, problem: str, remedy: str | None = None, *, kind: str) -> None:
        """Add a problem of the value at this address, relative to the description."""
        context = {"problem": problem, "remedy": remedy, "kind": kind}
        error = PydanticCustomError("finding", "{problem}", context)
        self._problems.append(InitErrorDetails(type=error, loc=address, input=None))

    def add_error(self, address: Address, error: InputError) -> None:
        """Add the problem of an error that the value at this address caused."""
        self.add(address, error.problem, error.remedy, kind=error.kind)

    def add_errors_of(self, resolve: Callable[[], object]) -> None:
        """Add the problems of creating an object from the fields `name` and `options`."""
        try:
            resolve()
        except DescriptionError as error:
            for problem in error.problems:
                path = address_from_path(problem.field) if problem.field else ()
                self.add_error(("options", *path), problem)
        except InputError as error:
            self.add_error(("name",), error)

    def add_repeats(self, names: Iterable[tuple[str, Address]], what: str) -> None:
        """Add a problem for every address with a name that repeats an earlier one."""
        seen: set[str] = set()
        reported: set[Address] = set()
        for name, address in names:
            if name in seen and address not in reported:
                self.add(
                    address, f"another {what} is called '{name}' already", kind="duplicate-name"
                )
                reported.add(address)
            seen.add(name)

    def check(self) -> None:
        """Raise a validation error if there are any problems."""
        if self._problems:
            raise ValidationError.from_exception_data("description", self._problems)


def problems_from_validation_error(
    error: ValidationError, document: ParsedDocument, classes: Mapping[int, Any]
) -> list[InputError]:
    """Convert the errors of pydantic into problems with path and line.

    `classes` maps the `id` of each mapping of the document to the class that it was read as.
    """
    problems: list[InputError] = []
    for details in _select_members(error.errors(include_url=False), document.data):
        context = details.get("ctx", {})
        # Pydantic does not count invalid items, so a list can be too short only because of them;
        # they have errors of their own.
        if details["type"] == "too_short" and len(details["input"]) >= context["min_length"]:
            continue
        address, parent = _locate(details, document.data)
        cause = context.get("error")
        if isinstance(cause, DescriptionError) and cause.file is not None:
            problems += cause.problems
        elif isinstance(cause, InputError) and cause.file is not None:
            problems.append(cause)
        else:
            problem, remedy, kind = _explain(details, cause, address, classes.get(id(parent)))
            problems.append(
                InputError(
                    problem,
                    kind=kind,
                    file=document.file,
                    line=document.line(address),
                    field=address_to_path(address) or None,
                    remedy=remedy,
                )
            )
    # A short form such as `ports: 1 Gb/s` stands for several fields, each with the same problem.
    unique = {str(problem): problem for problem in problems}
    return sorted(unique.values(), key=lambda problem: problem.line or 0)


def _select_members(errors: Sequence[ErrorDetails], data: Any) -> list[ErrorDetails]:
    """Select the errors of the members of a union that the data is meant for.

    Pydantic tries all members. If one of them has a problem inside the value, the value has the
    type of this member, and the others need not report that it does not have theirs.
    """
    inside: set[tuple[Any, ...]] = set()
    for details in errors:
        location = details["loc"]
        # The step at `length` is the member, further steps are inside of it.
        inside.update(location[:length] for length in range(len(location) - 1))
    return [
        details
        for details in errors
        if not (
            _is_mismatch(details)
            and details["loc"][:-1] in inside
            and len(_locate(details, data)[0]) < len(details["loc"])
        )
    ]


def _is_mismatch(details: ErrorDetails) -> bool:
    """Whether an error says that a value does not have the type of a field."""
    return details["type"] == "literal_error" or details["type"].endswith("_type")


def _locate(details: ErrorDetails, data: Any) -> tuple[Address, Any]:
    """Return the address of an error in the document, and the value around it.

    Pydantic's location also contains the tried member of a union, which the document does not.
    """
    address: list[str | int] = []
    parent, node = None, data
    # The location of these errors may end with a field that the document does not contain.
    may_be_absent = details["type"] in ("missing", "finding")
    steps = details["loc"]
    for step, next_step in zip_longest(steps, steps[1:]):
        if _has_item(node, step):
            parent, node = node, node[step]
        elif _has_item(node, next_step):
            continue  # the document has a short form
        elif may_be_absent and not (isinstance(node, dict) and step in _list_texts(node)):
            parent, node = node, None
        else:
            continue
        address.append(step)
    if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        address.append(details["ctx"]["discriminator"].strip("'"))
        parent = node
    return tuple(address), parent


def _has_item(node: Any, step: str | int | None) -> bool:
    """Whether a part of the document has an item at this step of an address."""
    if isinstance(node, list | tuple):
        return isinstance(step, int) and step < len(node)
    return isinstance(node, dict) and step in node


def _list_texts(node: Mapping[str, Any]) -> list[str]:
    """List the texts of a mapping, one of which may be the tag that selects a member of a union."""
    return [value for value in node.values() if isinstance(value, str)]


def _explain(
    details: ErrorDetails, cause: object, address: Address, cls: Any
) -> tuple[str, str | None, str]:
    """Return the problem, the remedy and the kind of an error of pydantic."""
    if isinstance(cause, InputError):
        return cause.problem, cause.remedy, cause.kind
    if cause is not None:
        return str(cause), None, "invalid-setting"
    context = details.get("ctx", {})
    value = quote_value(details["input"])
    match details["type"]:
        case "finding":
            return context["problem"], context["remedy"], context["kind"]
        case "missing" | "union_tag_not_found":
            return "is missing", _describe_field(cls, address[-1]), "missing-field"
        case "extra_forbidden":
            known = list(cls.model_fields) if cls is not None else []
            owner = f"the {cls.noun()}" if cls is not None else "the description"
            remedy = suggest_name(str(address[-1]), known) if known else None
            return f"is not a field of {owner}", remedy, "unknown-field"
        case "literal_error" | "union_tag_invalid":
            expected = _split_expected(context.get("expected", context.get("expected_tags", "")))
            given = context.get("tag", details["input"])
            close = get_close_matches(given, expected, n=1) if isinstance(given, str) else []
            remedy = f"did you mean '{close[0]}'?" if close else None
            problem = f"must be one of {', '.join(expected)}, not {quote_value(given)}"
            return problem, remedy, "not-a-choice"
        case "too_short":
            return (
                f"must have at least {_count(context['min_length'], 'item')}",
                None,
                "wrong-count",
            )
        case "too_long":
            items = _count(context["max_length"], "item")
            return f"must have at most {items}", None, "wrong-count"
        case kind:
            requirement = _describe_requirement(kind, context, details["msg"])
            return f"{requirement}, not {value}", None, classify_validation_error(kind)


def _describe_field(cls: Any, name: str | int) -> str | None:
    """Describe a missing field by the first part of its description; None without one."""
    field = cls.model_fields.get(name) if cls is not None else None
    description = "" if field is None else (field.description or "").partition("; ")[0]
    return f"give `{name}`, {description}" if description else None


def classify_validation_error(error_type: str) -> str:
    """Return the kind, in the table of codes, of an error type of pydantic.

    >>> classify_validation_error("greater_than"), classify_validation_error("int_parsing")
    ('out-of-range', 'wrong-type')
    """
    if error_type.startswith(("greater", "less", "finite", "multiple")):
        return "out-of-range"
    return {
        "value_error": "invalid-setting",
        "literal_error": "not-a-choice",
        "enum": "not-a-choice",
        "missing": "missing-field",
        "extra_forbidden": "unknown-field",
    }.get(error_type, "wrong-type")


def _split_expected(expected: str) -> list[str]:
    return [name.strip("' ") for name in expected.replace(" or ", ", ").split(", ")]


def _describe_requirement(kind: str, context: Mapping[str, Any], message: str) -> str:
    match kind:
        case "greater_than" if context["gt"] == 0:
            return "must be positive"
        case "greater_than_equal" if context["ge"] == 0:
            return "must not be negative"
        case "greater_than_equal":
            return f"must be at least {number_to_text(float(context['ge']))}"
        case "less_than_equal":
            return f"must be at most {number_to_text(float(context['le']))}"
        case "finite_number":
            return "must be a finite number"
        case "int_type" | "int_parsing" | "int_from_float" | "int_parsing_size":
            return "must be a whole number"
        case "float_type" | "float_parsing":
            return "must be a number"
        case "bool_type" | "bool_parsing":
            return "must be true or false"
        case "string_type":
            return "must be a text (in quotes if it looks like a number)"
        case "string_too_short":
            return f"must be a text of at least {_count(context['min_length'], 'character')}"
        case "string_too_long":
            return f"must be a text of at most {_count(context['max_length'], 'character')}"
        case "string_pattern_mismatch":
            return "must be a name without control characters, and without blanks at its ends"
        case "model_type" | "dict_type" | "model_attributes_type":
            return "must be a mapping of names to values"
        case "tuple_type" | "list_type":
            return "must be a list"
        case _:
            return message.replace("Input should", "must")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def find_unknown_names(
    given: Sequence[str], known: Sequence[str], what: str
) -> list[tuple[int, str]]:
    """Return position and remedy of every name that is not a known `what`."""
    known_set = set(known)
    return [
        (position, suggest_name(name, known) if known else f"there is no {what}")
        for position, name in enumerate(given)
        if name not in known_set
    ]

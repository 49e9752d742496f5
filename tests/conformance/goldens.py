"""Goldens that we do not follow, each with the reason. One that is followed fails its test."""

from __future__ import annotations

import fnmatch

GRAMMAR_CANNOT = (
    "a forced call is JSON that a grammar guides; markup and prose in its place cannot be produced"
)
LEFT_OPEN = "a call whose arguments are no JSON stays open: it is neither dropped nor rewritten"
# The first pattern that fits counts, by "family-scenario" and mode.
NOT_FOLLOWED: tuple[tuple[str, str, str], ...] = (
    ("Guided*", "*", GRAMMAR_CANNOT),
    (
        "Native",
        "*-native_quoted_incomplete_header",
        "a whole header of a call between quotes is still a header",
    ),
    (
        "Native",
        "*-prefilled_response_reasoning_markers_literal",
        "a token that opens reasoning does so behind a prompt that closed it, too",
    ),
    (
        "Native",
        "*-tool_block_never_closed_then_text",
        "what is no call becomes text again, so that nothing is lost",
    ),
    (
        "Native",
        "*-tool_in_reason*",
        "a call in front of the thought's end was only considered",
    ),
    ("Native", "*-malformed_json_then_two_valid_calls", LEFT_OPEN),
    (
        "Native",
        "deepseek_v4*-tool_no_close",
        "the last parameter is whole, and nothing had to be added",
    ),
    *(
        ("Native", case, "`<|end_of_msg|>` is a special token, which the detokenizer hides")
        for case in (
            "kimi_k3-kimi_k3_message_end_after_response",
            "kimi_k3-kimi_k3_spaced_xtml_markers",
        )
    ),
    (
        "Native",
        "kimi_k3-kimi_k3_malformed_call_then_valid",
        "what is no call becomes text again, so that nothing is lost",
    ),
    *(
        ("Native", case, "the same text and schema is a number or object in the cases of Qwen")
        for case in (
            "*-schema_type_array_string_integer",
            "glm47-schema_integer_const_ambiguous",
            "glm47-schema_object_const_union",
        )
    ),
    (
        "Native",
        "*-nullable_reference_alias_literals",
        "`nullable: true` takes null, beside a `$ref` as well",
    ),
    (
        "Native",
        "*-arg_numeric_14_large_*",
        "a whole number that a double cannot hold is written to the last digit",
    ),
)


def reason(mode: str, case_id: str) -> str | None:
    """Return why the golden of a case is not followed; None if it is."""
    return next(
        (why for in_mode, pattern, why in NOT_FOLLOWED if matches(in_mode, pattern, mode, case_id)),
        None,
    )


def matches(in_mode: str, pattern: str, mode: str, case_id: str) -> bool:
    """Whether an entry's mode and pattern fit a case's mode and id."""
    return fnmatch.fnmatchcase(mode, in_mode) and fnmatch.fnmatchcase(case_id, pattern)

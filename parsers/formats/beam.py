"""Reflection's Beam: Harmony's channels, with the parameters of calls between tags."""

import re
from dataclasses import replace

from ..format import Jump, ReuseSuffix, Spelling, State
from .fragments import merge_states
from .openai import AFTER_RECIPIENT, BEFORE_RECIPIENT, ENDS, OPENAI

_KEY = '<rfl:parameter name="'
# A line break stands on each side of a value; the one at its end may be part of the token.
_VALUE_ENDS = dict.fromkeys(("\n</rfl:parameter>", "</rfl:parameter>"), State.PARAMETERS)

BEAM = replace(
    OPENAI,
    name="beam",
    states=merge_states(
        OPENAI.states,
        {
            # As in front of a brace, `<|message|>` may be missing.
            State.HEADER: {_KEY: ReuseSuffix(Jump.BY_HEADER, len(_KEY))},
            # Arguments as one object; Harmony's models write them so.
            State.PARAMETERS: {
                "{": ReuseSuffix(State.ARGUMENTS),
                _KEY: State.KEY,
                "</rfl:parameter>": State.PARAMETERS,
                **ENDS,
            },
            State.KEY: {
                '">\n': State.VALUE,
                '">': State.VALUE,
                _KEY: State.KEY,
                **_VALUE_ENDS,
                **ENDS,
            },
            # A parameter without its end ends where the next one begins.
            State.VALUE: {**_VALUE_ENDS, _KEY: State.KEY, "\n" + _KEY: State.KEY},
        },
    ),
    headers=(
        (
            re.compile(
                rf"{BEFORE_RECIPIENT}(?P<name>(?!assistant\b)[^\s<]++){AFTER_RECIPIENT}", re.DOTALL
            ),
            State.PARAMETERS,
        ),
        *OPENAI.headers[2:],
    ),
    aliases=(),
    spelling=Spelling(
        " to={name}<|channel|>analysis <|constrain|>xml<|message|>{arguments}",
        between="<|end|><|start|>assistant",
        parameters={State.VALUE: _KEY + '{key}">\n{value}\n</rfl:parameter>'},
    ),
    strip="",
    source="sglang 0.5.23 parser/beam.py",
)

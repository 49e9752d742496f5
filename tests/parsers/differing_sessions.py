"""Prints the collected descriptions by what becomes of them, and the sessions that differ.

    python -m tests.parsers.differing_sessions

A session differs where our value is not transformers' recorded one; docs/decisions/0030 says for
each class who is right.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator

from backedge.base.errors import SetupError
from backedge.parsers.response_template import describes, find_table, name_description

from tests.engines.transformers import test_parsers as native
from tests.parsers import test_response_template as table
from tests.parsers.response_sessions import (
    SESSIONS,
    Session,
    Value,
    compile_all,
    read_lines,
    read_outcome,
    read_sessions,
    read_templates,
)


def count() -> Counter[str]:
    """Return the number of descriptions by what becomes of them, or by why they are refused."""
    tables, refused = compile_all()
    known = read_templates(SESSIONS)
    found = Counter({"a table": len(tables)})
    found["refused by transformers"] = len(read_lines(SESSIONS, "templates")) - len(known)
    for id_, reason in refused.items():
        name = name_description(known[id_])
        is_answer = describes(name, "--tool-call-parser") or describes(name, "--reasoning-parser")
        found["native" if is_answer else "neither calls nor reasoning"] += 1
        found["no table: " + re.sub(r"'[^']*'", "...", reason.partition(" field ")[2])] += 1
    return found


def parse(session: Session) -> tuple[str, Value]:
    """Return the class of a session that differs, "" for others, and our value."""
    way = native if isinstance(find_table(session.name), SetupError) else table
    classes = {id_: name for name, ids in way.DIFFERENT.items() for id_ in ids.split()}
    outcome = way.parse_session(session, len(session.text) + 1)
    return classes.get(session.id, ""), read_outcome(outcome)


def report() -> Iterator[str]:
    """Yield both as lines."""
    for what, number in count().most_common():
        yield f"{number:5}  {what}"
    found = [(*parse(session), session) for session in read_sessions()]
    different = [one for one in found if one[1] != one[2].expected]
    yield f"\n{len(found)} sessions, {len(different)} differ"
    for class_, value, session in sorted(different, key=lambda one: (one[0], one[2].id)):
        yield f"\n{class_}: {session.id}"
        values = {"answer": session.text, "transformers": session.expected, "ours": value}
        for what, shown in values.items():
            yield f"  {what:13}{json.dumps(shown, ensure_ascii=False)}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report())

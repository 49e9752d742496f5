"""instructor: objects by a forced call, which is all that it asks for."""

from __future__ import annotations

from typing import Any, ClassVar

import instructor
import openai
from typing_extensions import override

from . import base
from .openai_chat import Person


class Instructor(base.ClientAdapter):
    """`from_openai`, with its default mode `TOOLS`."""

    label, package = "instructor", "instructor"
    structured = "`create(response_model=...)`, a forced call"
    person: ClassVar[dict[str, Any]] = {"name": "Bob", "age": 44}
    conversations = ()
    error = "InstructorRetryException"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        client = openai.OpenAI(base_url=self.base_url, api_key=base.KEY, max_retries=0)
        self.client = instructor.from_openai(client)

    def _create(self, text: str, **options: Any) -> Any:
        return self.client.chat.completions.create(
            model=base.MODEL,
            messages=[{"role": "user", "content": text}],
            response_model=Person,
            max_retries=0,
            **options,
        )

    @override
    def run(self, question: str, *, stream: bool) -> base.Answer:
        raise NotImplementedError

    def stream_person(self) -> list[Any]:
        """Return the growing object of `create_partial`."""
        return list(
            self.client.chat.completions.create_partial(
                model=base.MODEL,
                messages=[{"role": "user", "content": "Extract the person: Bob is 44."}],
                response_model=Person,
                max_retries=0,
            )
        )

    @override
    def ask_badly(self) -> None:
        self._create("Extract the person: Bob is 44.", temperature=base.BAD_VALUE)

    @override
    def ask_person(self) -> dict[str, Any]:
        person: Person = self._create("Extract the person: Bob is 44.")
        return person.model_dump()

"""The back end without a model: it repeats recorded outputs, without torch or an engine.

It generates the transcript that has the row's prompt, regardless of sampling parameters.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from typing_extensions import override

from ..base.errors import SetupError
from ..offline.completion import FinishReason, TokenLogprobs
from ..offline.contracts import ModelLoadConfig, OptionValueError, check_names
from ..offline.inference_backend import GUIDED, LOGPROBS, SEEDS, Backend
from ..offline.model_text import ModelText
from ..offline.plugins.base import Plugin
from ..offline.results import RowError
from ..offline.rows import Row, find_row_error
from ..postprocess.messages import EngineLogprob
from ..templates.chat_template import ModelPrompts
from .transcripts import EXAMPLES, Recordings, UnknownPromptError, read_transcripts

# Its own engine arguments, with their defaults.
ARGUMENTS = {"transcripts": str(EXAMPLES / "transcripts"), "tokens_per_step": 1}


class ReplayBackend(Backend):
    """Repeats the transcripts of a folder.

    engine_args: `transcripts`, a folder of .jsonl files, and `tokens_per_step`.
    """

    name: ClassVar[str] = "replay"
    capabilities: ClassVar[frozenset[str]] = frozenset({LOGPROBS, GUIDED, SEEDS})

    def __init__(self, config: ModelLoadConfig, plugins: Sequence[Plugin] = ()) -> None:
        super().__init__(config, plugins)
        check_names("the back end 'replay'", config.engine_args, list(ARGUMENTS))
        if config.tokenizer_module is not None:
            problem = "is not for the back end 'replay', whose recordings have token ids"
            raise OptionValueError("tokenizer_module", problem)
        arguments = ARGUMENTS | dict(config.engine_args)
        self._folder = Path(str(arguments["transcripts"]))
        step = arguments["tokens_per_step"]
        if type(step) is not int or step < 1:
            raise OptionValueError.wrong(
                "engine_args.tokens_per_step", step, "an integer, 1 or more"
            )
        self._step = step
        self._files: ModelPrompts | None = None
        self._recordings: Recordings | None = None

    @override
    def open(self) -> ModelText:
        if not Path(self.config.model).is_dir():
            raise SetupError(
                f"the model {str(self.config.model)!r} is not a folder, and the back end 'replay' "
                "needs one; name a folder with tokenizer.json and a chat template."
            )
        files = self._files = ModelPrompts(
            Path(self.config.model),
            None if self.config.chat_template is None else str(self.config.chat_template),
            context_length=self.config.max_model_len,
        )
        self._recordings = Recordings(files, read_transcripts(self._folder))
        return ModelText(
            files.tokenizer,
            files.template.render,
            files.encode,
            lambda text: list(files.tokenizer.encode(text).ids),
            list({*files.eos_token_ids, *files.further_eos_token_ids}),
            files.context_length,
            files.generation_config,
        )

    @override
    def load(self) -> None:
        """Do nothing: `open` has read the transcripts."""

    @override
    def generate(self, rows: Iterator[Row]) -> Generator[Row, None, None]:
        for row in rows:
            try:
                if row.error is None:
                    self._replay(row)
            except UnknownPromptError as error:
                row.error = RowError("no_recording", str(error))
            except Exception as error:  # noqa: BLE001 - it is this row's
                row.error = find_row_error(error, "generation", "the recording")
            yield row

    def _replay(self, row: Row) -> None:
        assert self._recordings is not None, "not opened"  # noqa: S101 - narrows the type
        in_json = row.grammar is not None and row.grammar.json_calls
        token_ids = self._recordings.find(row.prompt.token_ids, in_json=in_json)
        for completion in row.completions:
            for start in range(0, max(len(token_ids), 1), self._step):
                part = token_ids[start : start + self._step]
                ended: FinishReason | None = None
                if start + self._step >= len(token_ids):
                    ended = "length"
                logprobs = None
                if row.sampling.logprobs is not None:
                    # A recording has no alternatives.
                    logprobs = TokenLogprobs(
                        [0.0] * len(part), [[EngineLogprob(token_id, 1)] for token_id in part]
                    )
                if completion.feed(part, logprobs, ended=ended):
                    break

"""The limits: what a request, an output, a schema or a process may make Backedge hold or wait for.

Each constant is followed by its row of docs/limits.md, which tools/limits_page.py writes: the unit,
what is limited, and what happens beyond the limit. A string that begins with `#` opens a table.
"""

"""# Post-processing"""

# A parser that holds back more characters counts as failed. This exceeds the output of a context
# of a million tokens, since an engine's parser may hold a call until it is complete.
MAX_HELD_CHARACTERS = 1 << 23
"""characters: text that a parser holds back
| the parser counts as failed, and the text is content"""
MAX_WAITING_CALL = 1 << 16
"""characters: a call object before its name | it is text"""
MAX_READ_AGAIN = 262_144
"""characters: text of rejected calls that is searched for another call
| a rejected call is text as a whole"""
MAX_MARKUP = 1024
"""characters: a name, key or header between markers | it is text"""
# No function's or parameter's name is longer.
MAX_TOOL_NAME = 256
"""characters: a function's name in an object or a list of calls | the call is text"""
MAX_SPACE = 256
"""characters: white space before an answer and after a call | it is content"""
MAX_GRAMMAR_SPACE = 32
"""characters: white space between parts of a JSON value in a grammar | the value must go on"""
# Some 14 tokens, for which the arguments' stream is silent; a marker token counts as 4 characters.
MAX_UNDECIDED_OUTPUT = 56
"""characters: output after a marker token in an open string | it is sent as text of the string"""
MAX_UNENDED = 256
"""characters: ends of a call that may belong to an open value | they are text of the value"""
MAX_CONSIDERED = 2048
"""characters: output from a call in open reasoning on, until the reasoning ends | it is a call"""
MAX_DISCARDED_TOKENS = 8192
"""tokens: of one request, discarded to generate calls again | the call stays open"""
MAX_CALL_ATTEMPTS = 2
"""attempts: to generate one malformed call again | the call stays open"""
MAX_REQUEST_ATTEMPTS = 4
"""attempts: to generate malformed calls of one request again | the call stays open"""
MAX_DOUBTED = 256
"""characters: text after a call that cannot be read, until a declared name shows that it was meant
| it is text"""
MAX_SEARCHED_CONTENT = 4096
"""characters: content of an answer that is searched for the markup of calls
| what follows is not searched"""
MAX_WORD = 256
"""characters: a keyword, or a name without quotes, in JSON | it becomes a string"""
# Python's `json` reads integers of 4,300 digits.
MAX_NUMBER = 4300
"""characters: a number in JSON | it becomes a string"""
MAX_HELD_VALUE = 1 << 16
"""characters: a parameter's text that may be a string or a container | it is a string"""
MAX_HELD_STRING = 1 << 16
"""characters: a JSON string where the schema allows none | it stays a string"""
# Python 3.11 decodes some 900 levels less those of its stack; later versions, thousands.
MAX_DECODED_NESTING = 512
"""levels: nesting of JSON in an output, in a file or of another program
| text stays a string, and a file is refused"""
MAX_BEGINNING = 1024
"""characters: text before the first argument of a Python call | the call is text"""
MAX_TAG = 1024
"""characters: an XML tag in arguments | it is text"""
MAX_DESCRIPTION_BYTES = 1 << 16
"""bytes: a checkpoint's description of its answers | it is refused"""
MAX_DESCRIBED_MARKERS = 32
"""markers: texts that such a description looks for | the description is no table"""
MAX_DESCRIBED_MARKER = 64
"""characters: one of these texts | as above"""
MAX_PATTERN_LENGTH = 1024
"""characters: an expression in such a description | as above"""
MAX_PATTERN_ALTERNATIVES = 32
"""alternatives: texts that an expression in such a description may match | as above"""
MAX_PATTERN_DEPTH = 8
"""levels: groups of an expression in such a description | as above"""
MAX_PARTS = 1024
"""parts: parts of a function's schema | further parts accept anything"""
MAX_CHECKED_DEPTH = 48
"""levels: nesting of a function's schema | deeper parts accept anything"""
# Room for the states of a thousand requests; a parser that needs more for one is broken.
PROCESS_MEMORY_MB = 2048
"""MiB: memory of a process of the pool beyond what it shares
| MemoryError in the parser, which has failed; `--postprocess-memory-mb`"""
MAX_DEATHS = 3
"""processes: processes that die in the steps of a request, or outside of any while serving it
| the request goes on without its parser, or fails"""
MAX_STEP_S = 2.0
"""seconds: a step of transformers' own parser in a command or a batch
| the answer goes on without its parser"""
ANSWER_TIMEOUT_S = 10.0
"""seconds: all answers to `backedge doctor`, and to `replay --url` beyond the recorded time
| they count as missing"""
ETCD_S = 5.0
"""seconds: wait for etcd before a worker or frontend registers in it | the process ends"""
REPLAY_TIMEOUT_S = 600.0
"""seconds: all answers to `backedge replay --url` | an error"""
ANSWER_SILENCE_S = 10.0
"""seconds: silence of a server that has not answered either of them completely | the same"""
# The metrics of a large fleet take some megabytes.
MAX_ANSWER_BYTES = 1 << 26
"""bytes: the size of such an answer, and of a worker's card | it is reported as another's"""
POOL_ABSENT_S = 10
"""seconds: time in which no process of the pool serves
| its requests go to other workers, and the worker leaves discovery"""
# An engine whose outputs are not read delivers its tokens in groups.
MAX_BACKLOG = 256
"""tokens: tokens of a request that wait for a process | the engine's outputs are left unread"""

"""# Requests"""

# Room for images in data URLs. Dynamo converts a body while no stream of the frontend goes on; a
# fleet for text alone sets 2, as our manifests do.
BODY_MB = 20
"""MiB: the body of a request, images in data URLs included
| 413, from Dynamo; its variable `DYN_HTTP_BODY_LIMIT_MB`"""
# Messages, content parts and tool calls together. vLLM's own check of a request, which holds the
# interpreter's lock, takes 12 us for each.
MAX_MESSAGES = 8_192
"""entries: messages, content parts, segments of reasoning and tool calls together | 400"""
MAX_ARGUMENTS = 1_048_576
"""characters: the arguments of an earlier call | 400"""
# vLLM takes 0.1 ms for each, SGLang copies them.
MAX_TEMPLATE_VALUES = 1_024
"""values: values in `chat_template_kwargs`, nested ones included | 400"""
MAX_OPTIONS = 65_536
"""characters: the options in a request's `metadata`, as text | 400"""
MAX_TOOLS = 1024
"""tools: tools of a request | 400"""
# Some 200 tools' parameters; calls of an engine's own JSON grammar do not count.
MAX_GRAMMAR_BYTES = 1_048_576
"""bytes: the grammar of parameters between tags, of all tools of a request | no grammar"""
MAX_REST_CHARACTERS = 65_536
"""characters: JSON with which another worker goes on under a grammar | the answer fails"""
MAX_REST_DEPTH = 32
"""levels: open containers of such JSON | the answer fails"""
MAX_REST_MEMBERS = 32
"""properties: that may be the next one of such JSON | the answer fails"""
MAX_STOPS = 1_024
"""strings: stop strings | 400"""
MAX_STOP_CHARACTERS = 100_000
"""characters: stop strings together | 400"""
# Token ids at which generation ends; engines look through them for each token.
MAX_STOP_TOKEN_IDS = 1024
"""tokens: `stop_token_ids` | 400"""
# Choices of one request, and alternatives of one token: the limits of OpenAI's API.
MAX_CHOICES = 128
"""choices: `n` | 400"""
MAX_TOP_LOGPROBS = 20
"""tokens: `top_logprobs` | 400"""
MAX_SCHEMA_BYTES = 262_144
"""bytes: a JSON schema | 400"""
MAX_SCHEMAS_BYTES = 1_048_576
"""bytes: the schemas of all tools | 400"""
MAX_SUBSCHEMAS = 16_384
"""schemas: schemas in a schema | 400"""
MAX_SCHEMA_DEPTH = 96
"""levels: nesting of a JSON schema, as JSON | 400"""
# The length of a regular expression, and its groups in groups: engines translate it recursively.
MAX_PATTERN_CHARACTERS = 8192
"""characters: a regular expression | 400"""
MAX_GROUPS = 64
"""groups: groups inside each other in a regular expression | 400"""
MAX_GRAMMAR_CHARACTERS = 65_536
"""characters: a grammar; all of `guided_choice` | 400"""
# Counted by guided/grammar_size.py. One takes xgrammar some 15 us; of a string's length, 130.
# `[a-z]{1,5000}`, `.{1,2500}`, 1,000 optional properties and 16 long lengths are allowed.
MAX_GRAMMAR_STEPS = 524_288
"""steps: the grammar of a request's schemas and expressions, all copies and orders written out
| 400"""
# As deep as Dynamo's HTTP layer lets the request itself be nested.
MAX_JSON_NESTING = 128
"""levels: JSON in a string: `metadata.backedge`, arguments of earlier calls
| 400; arguments are shown as written"""
MAX_PROMPT_CHARACTERS = 67_108_864
"""characters: text of a prompt | 400"""
# A text with at most this many characters per token of the model's context is tokenized at once.
# Prose and code have 3 to 5 per token, lists of long words 8.
CHARACTERS_PER_TOKEN = 16
"""characters: text of a prompt for each token of the context
| its beginning is tokenized first, and refused at more than twice the context"""
# Rendering 200,000 tokens of messages takes a fraction of a second; an endless loop, forever.
TEMPLATE_S = 10.0
"""seconds: CPU time of a render of a chat template | its process is replaced, 400"""
# A prompt of 16 million characters takes a quarter of it.
RENDER_MEMORY_MB = 1024
"""MiB: memory of a process that renders, beyond what it starts with | 400"""
RENDER_ANSWER_S = 30.0
"""seconds: an answer of such a process, on a busy machine | it is replaced, 400"""
MAX_WAITING_RENDERS = 32
"""requests: requests that wait for the slow process of a template, or are served by it | 503"""
MAX_SHOWN_NAME = 200
"""characters: a name or a value that an error repeats | its beginning and its end"""
MAX_SHOWN_TEXT = 1000
"""characters: an error | its beginning and its end"""
MAX_LOGGED_MESSAGE = 4096
"""characters: the message of a log line | its beginning and its end"""
MAX_LOGGED_TRACEBACK = 1 << 16
"""characters: the traceback of a log line | its beginning and its end"""
MAX_LOGGED = 1 << 17
"""characters: log lines of one place in the code, in the time below
| further ones are left out, and counted by the next line"""
LOG_WINDOW_S = 60.0
"""seconds: the time in which these are counted | they are counted anew"""
MAX_CONVERSATION = 256
"""characters: the name of a conversation in `metadata.backedge` | 400"""
KEEP_TURNS_MB = 256
"""MiB: answers that are kept for later requests, of all models
| those used longest ago are forgotten; `--keep-turns-mb`"""
MAX_TURN_BYTES = 4_194_304
"""bytes: reasoning and token ids of an answer | it is not kept"""
# The frontend waits for half of it; the rest is for an event loop that notices late.
TURN_LOOKUP_MS = 30
"""milliseconds: a look-up in the store of turns that frontends share
| the request goes on without"""
KEEP_TURNS_EXPIRY_S = 3600
"""seconds: how long that store keeps an answer | it is forgotten; `--keep-turns-expiry`"""
# For each thread: 1 s of short prompts, or minutes of long ones, which no engine reads faster.
WAITING_PER_THREAD = 1024
"""requests: requests that wait for a thread, for each thread | 503"""
# The text of all prompts that wait. It takes minutes to tokenize, and a gigabyte at most to hold.
MAX_WAITING_CHARACTERS = 268_435_456
"""characters: text of the waiting requests together | 503"""
PROMPT_CACHE_MB = 256
"""MiB: parts of prompts whose token ids are remembered, of all models
| those used longest ago are forgotten; `--prompt-cache-mb`"""

"""# Requests as workers get them"""

# Limit of the encoded parameters, which are mostly the schemas of the request's tools.
MAX_PARAMS_CHARACTERS = 1 << 24
"""characters: the parameters of a request | 400"""
MAX_WORKER_LOGPROBS = 1024
"""tokens: alternatives for each token | 400"""
# Limit of earlier calls in the conversation; vLLM's parsers get a list of this length.
MAX_HISTORY_CALLS = 65_536
"""calls: tool calls in the conversation so far | 400"""
# Limit of an id or a name, which each chunk repeats.
MAX_ID = 4096
"""characters: the id of the request, and the model's name | 400"""

MAX_ENGINE_MESSAGE = 1 << 26
"""bytes: a message from the gRPC server of an engine | the request fails"""
MAX_MESSAGE_TOKENS = 65_536
"""tokens: in one message of an answer of that server | the request fails"""
ENGINE_PROBE_S = 5.0
"""seconds: an answer of that server to a probe | the probe has failed"""
ENGINE_PROBE_INTERVAL_S = 1.0
"""seconds: from one probe to the next | the next one starts"""
MAX_FAILED_PROBES = 5
"""probes: probes in a row that fail
| requests move to other workers"""

MAX_RANKS = 1024
"""ranks: an engine's data-parallel ranks, as its server tells them | the worker does not start"""
MAX_CACHED_BLOCKS = 1 << 22
"""blocks: an engine's KV cache, as its server tells it | routers do not learn of further blocks"""

"""# Recordings"""

RECORDINGS_MB = 1024
"""MiB: all recordings in a folder
| the oldest files are deleted, before a new one begins; `--postprocess-record-mb`"""
MAX_FILE_BYTES = 67_108_864
"""bytes: a file of recordings, and a recording; at most a quarter of the bound above
| the next file begins; a longer recording is lost"""
MAX_RECORDED_TOKENS = 131_072
"""tokens: tokens of a recording, discarded ones included
| it ends there, and says how many it leaves out"""
SAMPLE_AHEAD = 64
"""requests: recordings that a frontend may draw beyond a worker's share
| its draws count no longer until the share allows it"""
MAX_HELD_TOKENS = 1_048_576
"""tokens: tokens of all requests that are being recorded | no further request is recorded"""
MAX_WAITING_RECORDINGS = 64
"""requests: requests that have ended and wait to be written
| their recordings are lost, and counted"""
TAIL_TOKENS = 1024
"""tokens: tokens at the end of a prompt that stay without the prompt
| the reasoning that the prompt opens earlier is not known"""
MAX_TRIALS = 5000
"""runs: runs of `backedge replay --minimize` | the shortest stream found so far is the result"""
MAX_RECORDING_LINE = 1 << 27
"""bytes: a line of a file of recordings, as it is read | the file is refused, with the line"""
MAX_RECORDED_MS = 604_800_000
"""milliseconds: a time in a recording, as it is read | the line is no recording"""
MAX_REQUESTS = 10_000
"""requests: requests of a file that `backedge inspect` lists | `--request` finds the others, too"""
MAX_SHOWN_TOKENS = 262_144
"""tokens: tokens of a choice that `backedge inspect` shows | it says how many it leaves out"""
MAX_SHOWN_HELD = 200
"""characters: the shown end of a held-back text | its length is shown"""

"""# Generation without a server"""

# Room for an image in a data URL.
MAX_BATCH_LINE = 67_108_864
"""bytes: a line of the input of `python -m backedge.offline`
| the file is refused, with the line"""
# Rows in the engine, running and waiting. Its scheduler runs some hundreds at once.
MAX_HELD_ROWS = 1024
"""rows: rows that vLLM or SGLang holds, running and waiting | further rows are read later"""
# OpenAI's bound.
MAX_EMBEDDED_INPUTS = 2048
"""inputs: the inputs of a row of embeddings | the row's error"""
MAX_HELD_INPUTS = 256
"""inputs: inputs of rows that are embedded together
| further rows are read later"""
MAX_IMAGE_BYTES = 67_108_864
"""bytes: the file of an image | the row's error"""
MAX_IMAGE_PIXELS = 67_108_864
"""pixels: an image | the row's error, before its pixels are read"""
MAX_IMAGE_REDIRECTS = 3
"""redirects: the URL of an image | the row's error"""
IMAGE_FETCH_S = 20.0
"""seconds: an image is fetched from a URL, redirects included | the row's error"""
MAX_ROW_IMAGES = 16
"""images: a row of a batch | the row's error"""
# Some 800 MB, as RGB.
MAX_HELD_PIXELS = 268_435_456
"""pixels: images of the rows in an engine | further rows are read later"""

"""# Inside a process"""

MAX_SEARCHED_ARGUMENTS = 1 << 20
"""characters: arguments that are searched for markup at the end of their call
| they are not searched"""
MAX_UNDECIDED_BRACKET = 1 << 16
"""characters: a bracket in Python's syntax that may enclose a value, a list or an object
| it is a list"""
# The longest name in `\N{...}`; Unicode's own are shorter.
MAX_CHARACTER_NAME = 128
r"""characters: the name of a character in `\N{...}` | the escape is text"""
# Formats of ours have 4 at most; each line break doubles them.
MAX_ENDS = 32
"""ways: to write the end of a call, whose line breaks are optional, in a grammar | no grammar"""
MAX_DECODED = 8192
"""tokens: the prompt's end, decoded in search of markers that are text
| the format's default decides"""
MAX_CHECKS = 4096
"""steps: steps to compare a value with its schema | the value counts as accepted"""
MAX_COMPARED = 65_536
"""values: values of `enum` and `const` to compare a value with | the value counts as accepted"""
MAX_REST_PARTS = 512
"""alternatives: of a schema that are followed for the rest of JSON | the others are left out"""
MAX_START_DEATHS = 5
"""processes: processes that die before any has served | the worker does not start"""
PROCESS_START_S = 30
"""seconds: from the fork of a process until it serves | it is killed"""
MAX_DELAY_S = 5.0
"""seconds: the longest wait before a process that died is replaced | it waits no longer"""
# Time to import an engine's parsers and load a tokenizer from a slow disk.
FORK_SERVER_START_S = 600
"""seconds: first start of the fork server | the worker does not start"""
# The files are cached by then, and requests go to other workers meanwhile.
FORK_SERVER_RESTART_S = 60
"""seconds: another start of the fork server | the next one is tried"""
# Time to fork a process; normally milliseconds.
FORK_TIMEOUT_S = 1.5
"""seconds: a process to be forked | the fork server is replaced"""
MAX_FORK_SERVER_LINE = 4096
"""bytes: a line from the fork server | it is replaced"""
# A longer message is invalid. All steps of a million tokens take a fifth of it.
MAX_MESSAGE_BYTES = 1 << 28
"""bytes: a message from a process of the pool | it is replaced"""
# Chunks of a response that the event loop sends itself; Dynamo buffers twice as many.
DIRECT_CHUNKS = 128
"""chunks: chunks of a response that the worker's event loop sends | a thread sends them"""
STUCK_MS = 20
"""milliseconds: time that this thread may be stuck with one response
| another thread sends the others"""
# Limit for an error's text, so that no log line or answer repeats a message of megabytes.
MAX_ERROR = 4096
"""characters: the text of an engine's error | it is cut"""
MAX_REASON = 1000
"""characters: the text of a parser's error | it is cut"""
# Streams wait as long in an event loop.
MAX_LOOP_RENDER_MS = 2
"""milliseconds: wait for a render in the event loop | a thread waits for it"""
MAX_THREAD_RENDER_MS = 100
"""milliseconds: wait for a render in a thread | it goes on in the template's slow process"""
MAX_SUSPECT_RENDER_MS = 10
"""milliseconds: the same while the slow process renders another prompt
| it is ended, and begins anew when it is its turn"""
MAX_FETCHED_TURNS = 256
"""answers: answers of one look-up in the store of turns
| the earlier ones are fetched with later requests"""
MAX_WAITING_TURNS = 64
"""answers: answers that wait for being written to it | they are kept here alone"""
MAX_WAITING_TURN_BYTES = 16_777_216
"""bytes: reasoning and token ids of these answers together | they are kept here alone"""
MAX_COMPARED_TURNS = 16_384
"""answers: answers whose rendered form is known to equal the generated one, for each model
| the first ones are compared again"""
# A prompt whose new parts need more than this fraction of the cache is not cached, because it
# would displace many others.
LARGEST_SHARE = 4
"""prompts: prompts whose new parts the cache of prompts holds, at least
| a larger one is not remembered"""
# Smaller numbers are shared; each takes 40 bytes.
MAX_NUMBERS = 1_048_576
"""ids: token ids that all its parts share as numbers
| larger ones are made anew each time"""
# Limit of different tokens to cut at. Special tokens come first, then those without a number: a
# vocabulary may have thousands reserved for later, such as <unused17>.
MAX_CUT_TOKENS = 1_024
"""tokens: different tokens in front of which prompts are cut into parts
| prompts are not cut at the others"""
MAX_TOKEN_CHARACTERS = 64
"""characters: a token in front of which prompts are cut | prompts are not cut there"""
# Limits for any added token, and for all together, because all their parts are compared.
MAX_ADDED_CHARACTERS = 256
"""characters: an added token of a tokenizer whose prompts are cut | its prompts are not cut"""
MAX_ADDED_TOGETHER = 524_288
"""characters: all its added tokens together | its prompts are not cut"""
KEPT_TEMPLATES = 64
"""templates: chat templates whose form of content is remembered, with the `sglang` edge
| they are looked at again"""
MAX_SHARED = 16
"""parsers: reasoning parsers that the requests of a model share, with the `vllm` edge
| the oldest are made anew"""
MAX_SHARED_BYTES = 1024
"""bytes: the arguments of the chat template that requests share one for
| each request has its own"""
# Agents send the same tools with every request.
MAX_TOOL_FORMS_BYTES = 16_777_216
"""bytes: the standard forms of tools' schemas that are remembered | the oldest are forgotten"""
MEDIA_RETRY_S = 30.0
"""seconds: time until an engine's back end for media that could not be built is tried again
| the first request with media after it waits for that"""
MAX_SHORT_CHARACTERS = 2_000
"""characters: text of a prompt that is made in the event loop | it is made in a thread"""
MAX_SHORT_MESSAGES = 16
"""messages: messages of such a prompt | it is made in a thread"""
MAX_SHORT_MS = 10
"""milliseconds: CPU time of such a prompt
| the next 64 short ones of the model are made in threads"""
# CPU time of short prompts on average, and of each. Streams wait as long for an event loop that
# makes one; now and then the interpreter collects garbage meanwhile.
MAX_MEAN_MS = 2
"""milliseconds: their average, over some 32 prompts | they are made in threads until it is less"""
MAX_SPELLED_NAMES = 1024
"""names: declared names with other characters than [A-Za-z0-9_] in a redacted recording
| further ones are redacted"""
MAX_SEARCHED = 262_144
"""ids: token ids that are searched for those of single characters | words become fewer tokens"""
# The memory of the grammars that are remembered: rows often share one.
MAX_GRAMMARS_BYTES = 268_435_456
"""bytes: the grammars of rows that transformers' back end remembers | the oldest are forgotten"""

"""The list of formats: to add a format, import it here."""

# ruff: noqa: F401 - `FORMATS` collects the imported names

from __future__ import annotations

from ..format import Format
from .apertus import APERTUS
from .apriel import APRIEL
from .beam import BEAM
from .cohere import COHERE_COMMAND
from .deepseek_dsml import DEEPSEEK_V4, DEEPSEEK_V32, DEEPSEEK_V41, GIGACHAT35
from .deepseek_v3 import DEEPSEEK_V3, DEEPSEEK_V31
from .dots import DOTS
from .ernie45 import ERNIE45
from .gemma import FUNCTIONGEMMA, GEMMA4
from .gigachat3 import GIGACHAT3
from .glm45 import GLM45, IQUEST_CODER_V2, IQUEST_Q1, LING3, POOLSIDE_V1
from .granite import GRANITE, GRANITE_20B_FC
from .hermes import HERMES, NEMOTRON_DECI
from .hunyuan import HY_V3
from .hunyuan_a13b import HUNYUAN_A13B
from .inkling import INKLING
from .internlm import INTERNLM
from .jamba import JAMBA
from .k2_horizon import K2_HORIZON
from .kimi_k2 import KIMI_K2
from .kimi_k3 import KIMI_K3
from .llama import LLAMA_JSON
from .longcat import LONGCAT
from .minicpm5 import MINICPM5
from .minimax import MINIMAX_M2, MINIMAX_M2_APPEND_THINK, MINIMAX_M3
from .mistral import MISTRAL
from .muse_glimmer import MUSE_GLIMMER
from .openai import OPENAI
from .openpangu import OPENPANGU_V2
from .phi4 import PHI4_MINI_JSON
from .plamo3 import PLAMO3
from .pythonic import LFM2, OLMO3, PYTHONIC
from .qwen3 import MIMO, QWEN3, QWEN3_CODER
from .sarashina import SARASHINA
from .seed_oss import SEED_OSS
from .solar import SOLAR_OPEN, SOLAR_OPEN2
from .step3 import STEP3
from .step_audio import STEP_AUDIO_2
from .think import BASIC, DEEPSEEK_R1, HOLO2, KIMI
from .xlam import XLAM

FORMATS: tuple[Format, ...] = tuple(
    sorted(
        (value for value in globals().values() if isinstance(value, Format)),
        key=lambda format_: format_.name,
    )
)
"""All formats, by name; `index_by_name` in parser_lookup.py rejects duplicate names."""

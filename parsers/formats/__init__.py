"""One module per family of models; each is a table. `docs/add-a-format.md` shows how to write one."""

from __future__ import annotations

from .apertus import APERTUS
from .cohere import COHERE_COMMAND
from .deepseek_dsml import DEEPSEEK_V4, DEEPSEEK_V32, DEEPSEEK_V41
from .deepseek_v3 import DEEPSEEK_V3, DEEPSEEK_V31
from .dots import DOTS
from .ernie45 import ERNIE45
from .gemma import FUNCTIONGEMMA, GEMMA4
from .gigachat3 import GIGACHAT3
from .glm45 import GLM45, POOLSIDE_V1
from .granite import GRANITE, GRANITE_20B_FC
from .hermes import HERMES
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
from .minimax import MINIMAX_M2, MINIMAX_M3
from .mistral import MISTRAL
from .muse_glimmer import MUSE_GLIMMER
from .openai import OPENAI
from .phi4 import PHI4_MINI_JSON
from .pythonic import LFM2, OLMO3, PYTHONIC
from .qwen3 import QWEN3, QWEN3_CODER
from .seed_oss import SEED_OSS
from .step3 import STEP3
from .think import DEEPSEEK_R1, HOLO2, KIMI
from .xlam import XLAM

FORMATS = (
    APERTUS,
    COHERE_COMMAND,
    DEEPSEEK_R1,
    DEEPSEEK_V3,
    DEEPSEEK_V31,
    DEEPSEEK_V32,
    DEEPSEEK_V4,
    DEEPSEEK_V41,
    DOTS,
    ERNIE45,
    FUNCTIONGEMMA,
    GEMMA4,
    GIGACHAT3,
    GLM45,
    GRANITE,
    GRANITE_20B_FC,
    HERMES,
    HOLO2,
    HUNYUAN_A13B,
    INKLING,
    INTERNLM,
    JAMBA,
    K2_HORIZON,
    KIMI,
    KIMI_K2,
    KIMI_K3,
    LFM2,
    LLAMA_JSON,
    LONGCAT,
    MINICPM5,
    MINIMAX_M2,
    MINIMAX_M3,
    MISTRAL,
    MUSE_GLIMMER,
    OLMO3,
    OPENAI,
    PHI4_MINI_JSON,
    POOLSIDE_V1,
    PYTHONIC,
    QWEN3,
    QWEN3_CODER,
    SEED_OSS,
    STEP3,
    XLAM,
)

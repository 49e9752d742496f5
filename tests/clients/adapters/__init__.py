"""The clients that are tried, in the order of docs/clients.md."""

from __future__ import annotations

from .anthropic_messages import AnthropicMessages
from .base import ClientAdapter
from .instructor_chat import Instructor
from .langchain_chat import LangChain, LangChainResponses
from .litellm_chat import LiteLLM
from .openai_agents import OpenAIAgents, OpenAIAgentsChat
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .pydantic_ai_agent import PydanticAI
from .smolagents_agent import Smolagents
from .vercel_ai import VercelAI, VercelAnthropic, VercelOpenAI

CLIENTS: tuple[type[ClientAdapter], ...] = (
    OpenAIChat,
    OpenAIResponses,
    AnthropicMessages,
    LiteLLM,
    LangChain,
    LangChainResponses,
    PydanticAI,
    OpenAIAgents,
    OpenAIAgentsChat,
    Instructor,
    Smolagents,
    VercelAI,
    VercelOpenAI,
    VercelAnthropic,
)

// The Vercel AI SDK: node ask.mjs '{"provider": ..., "url": ..., "task": ..., ...}' prints what it
// shows as JSON, or the error that it throws.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const request = JSON.parse(process.argv[2]);
const { provider, baseURL, apiKey, question } = request;

const MODELS = {
  compatible: () =>
    createOpenAICompatible({ name: "backedge", baseURL, apiKey, supportsStructuredOutputs: true })(
      request.model,
    ),
  openai: () => createOpenAI({ baseURL, apiKey }).responses(request.model),
  anthropic: () => createAnthropic({ baseURL, apiKey })(request.model),
};
const options = {
  model: MODELS[provider](),
  maxRetries: 0,
  prompt: question,
  ...request.options,
};
const tools = {
  [request.tool.name]: tool({
    description: request.tool.description,
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => request.weather[city],
  }),
};
const DELTAS = new Set(["text-delta", "reasoning-delta", "tool-input-delta"]);

async function run() {
  const asked = { ...options, tools, stopWhen: stepCountIs(3) };
  let pieces = 0;
  let steps;
  if (request.stream) {
    let failure;
    const result = streamText({ ...asked, onError: ({ error }) => (failure = error) });
    for await (const part of result.fullStream) {
      pieces += DELTAS.has(part.type) ? 1 : 0;
    }
    if (failure) throw failure;
    steps = await result.steps;
  } else {
    steps = (await generateText(asked)).steps;
  }
  return {
    reasoning: steps.map((step) => step.reasoningText ?? ""),
    content: steps.at(-1).text,
    calls: steps.flatMap((step) => step.toolCalls.map((call) => [call.toolName, call.input])),
    pieces,
  };
}

async function person() {
  const schema = z.object({ name: z.string(), age: z.number().int() });
  return (await generateText({ ...options, output: Output.object({ schema }) })).output;
}

async function badly() {
  return (await generateText(options)).text;
}

try {
  console.log(JSON.stringify({ answer: await { run, person, badly }[request.task]() }));
} catch (error) {
  const { name, message, statusCode, responseBody } = error;
  console.log(JSON.stringify({ error: { name, message, statusCode, responseBody } }));
}

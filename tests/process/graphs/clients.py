"""Models called with the providers' own SDKs and LangChain, as their documentation shows it: nothing of AgentOS."""

from __future__ import annotations

import os
from typing import TypedDict

import anthropic
import openai
from google import genai
from journal import note
from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    say: str
    seen: list[str]


# At the top of a module, long before there is an item. As in most programs.
shared = openai.OpenAI()


def _with_openai(text: str) -> str:
    answer = shared.chat.completions.create(model="gpt-5.1", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content or ""


def _with_anthropic(text: str) -> str:
    client = anthropic.Anthropic()
    with client.messages.stream(
        model="claude-sonnet-5", max_tokens=50, messages=[{"role": "user", "content": text}]
    ) as stream:
        return stream.get_final_text()


def _with_google(text: str) -> str:
    client = genai.Client()
    return client.models.generate_content(model="gemini-2.5-flash", contents=text).text or ""


def ask(state: State) -> State:
    text = state["say"]
    seen = [_with_openai(text), _with_anthropic(text), _with_google(text)]
    note(f"{os.environ['AGENTOS_ITEM_ID']} {' '.join(seen)}")
    keys = [value for name, value in os.environ.items() if name.endswith("_API_KEY")]
    note(f"{os.environ['AGENTOS_ITEM_ID']} keys {sorted({value[:8] for value in keys})}")
    return {"seen": seen}


def ask_langchain(state: State) -> State:
    from langchain_anthropic import ChatAnthropic
    from langchain_google_genai import ChatGoogleGenerativeAI
    from langchain_openai import ChatOpenAI

    models = [
        ChatOpenAI(model="gpt-5.1"),
        ChatAnthropic(model="claude-sonnet-5"),
        ChatGoogleGenerativeAI(model="gemini-2.5-flash"),
    ]
    seen = [str(model.invoke(state["say"]).text) for model in models]
    note(f"{os.environ['AGENTOS_ITEM_ID']} {' '.join(seen)}")
    return {"seen": seen}


def _made(run: object) -> StateGraph:
    made = StateGraph(State)
    made.add_node("ask", run)
    made.add_edge(START, "ask")
    made.add_edge("ask", END)
    return made


graph = _made(ask)
langchain = _made(ask_langchain)

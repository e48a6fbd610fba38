"""AgentOS: run agent workflows over many items in parallel, durably, with a shared pool of API keys."""

__version__ = "0.1.0"

"""LiteLLM's Router, as documented: every key a deployment of one model group. Runs in an environment of its own."""

from __future__ import annotations

import os
from typing import Any

from work import Plan, run

# Its price list would come over the network at import.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def new_router(plan: Plan) -> Any:
    import litellm  # type: ignore[import-not-found]

    litellm.suppress_debug_info = True
    deployments = [
        {
            "model_name": "bench",
            "litellm_params": {
                "model": f"gemini/{plan.model}",
                "api_base": f"{plan.base_url}/v1beta",
                "api_key": secret,
                "rpm": plan.requests_per_minute,
            },
        }
        for secret in plan.secrets
    ]
    return litellm.Router(model_list=deployments)


if __name__ == "__main__":
    _plan = Plan.from_command_line()
    _router = new_router(_plan)
    run(_plan, lambda prompt: _router.completion("bench", [{"role": "user", "content": prompt}]))

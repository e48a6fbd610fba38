"""What most scripts do: take the keys in turn, skip one that errs, sleep after a 429."""

from __future__ import annotations

import itertools
import json
import threading
import urllib.error
import urllib.request
from http import HTTPStatus

from work import Plan, run


class RoundRobin:
    """Every call takes the next key, whatever is known of it."""

    def __init__(self, plan: Plan) -> None:
        self._url = f"{plan.base_url}/v1beta/models/{plan.model}:generateContent"
        self._secrets = itertools.cycle(plan.secrets)
        self._lock = threading.Lock()

    def call(self, prompt: str) -> object:
        """The answer; a 429 is raised, after any other refusal the next key is tried."""
        while True:
            try:
                return self._send(prompt)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == HTTPStatus.TOO_MANY_REQUESTS:
                        raise

    def _send(self, prompt: str) -> object:
        with self._lock:
            secret = next(self._secrets)
        body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
        headers = {"content-type": "application/json", "x-goog-api-key": secret}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)


if __name__ == "__main__":
    _plan = Plan.from_command_line()
    run(_plan, RoundRobin(_plan).call)

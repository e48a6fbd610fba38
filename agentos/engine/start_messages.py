"""What the worker of an item is sent first: everything it needs to know."""

from __future__ import annotations

from collections.abc import Mapping

from agentos.engine.item_store import ItemStore
from agentos.engine.messages import StartItem
from agentos.engine.plan import Item
from agentos.engine.run_settings import RunSettings
from agentos.engine.stopping import GRACE
from agentos.keys.redaction import Redactor


class StartMessages:
    """For every attempt of a run's items."""

    def __init__(
        self, settings: RunSettings, items: Mapping[str, Item], store: ItemStore, redactor: Redactor
    ) -> None:
        self._settings = settings
        self._items = items
        self._store = store
        self._redactor = redactor
        self._opened: set[str] = set()

    def has_opened(self, item_id: str) -> None:
        """What it finds when it comes back, after a crash or a lost backend, is its own: it resumes from there."""
        self._opened.add(item_id)

    def message(self, item_id: str, attempt: int, environment: Mapping[str, str]) -> StartItem:
        settings, item = self._settings, self._items[item_id]
        return StartItem(
            item_id=item.id,
            workflow=settings.workflow,
            run_id=settings.run_id,
            attempt=attempt,
            input=item.input,
            checkpoint_address=self._store.checkpoint_address(item.id),
            work_dir=item.work_dir or str(settings.project_dir),
            fresh=settings.fresh and item.id not in self._opened,
            heartbeat_seconds=settings.time_limits.heartbeat_seconds,
            stop_grace_seconds=GRACE.worker,
            environment={**environment, **item.environment},
            marks=self._redactor.marks(),
            options={**settings.graph_options, **item.options},
        )

"""One a3c-zoo run as one run of MLflow."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

from a3c_zoo import ZooError, hookimpl
from a3c_zoo.records import Outcome, Progress, RunInfo

from a3c_zoo_wandb.config import MlflowConfig
from a3c_zoo_wandb.points import final_figures, keep_id, known_id, point

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: The file of the run directory that has the id of MLflow's run.
ID_FILE = "mlflow-run-id"
#: MLflow waits for a server that is away for minutes, and training would stand still meanwhile. A variable that the
#: user has set counts.
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
#: After a point that could not be sent, the next one waits for so many seconds.
PAUSE_S = 60.0
#: The longest text of a setting, in characters.
LONGEST = 500


class MlflowLogger:
    """The run hooks of one session. All curves are drawn over agent steps.

    Raises:
        ZooError: MLflow is not installed.
    """

    def __init__(self, config: MlflowConfig) -> None:
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        try:
            import mlflow
        except ImportError as error:
            raise ZooError(f"MLflow is not installed ({error}): pip install mlflow") from error
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        self._client: MlflowClient = mlflow.MlflowClient(config.tracking_uri)
        self._config = config
        self._run_id: str | None = None
        self._newest: Progress | None = None
        self._next_s = 0.0

    @hookimpl
    def zoo_run_start(self, run: RunInfo) -> None:
        """Begins a run of MLflow. A run that is resumed goes on with its own."""
        file = run.path / ID_FILE
        known = known_id(file)
        if known is not None:
            self._client.update_run(known, status="RUNNING")
            self._run_id = known
            return
        experiment = self._client.get_experiment_by_name(self._config.experiment)
        if experiment is None:
            experiment_id = self._client.create_experiment(self._config.experiment)
        else:
            experiment_id = experiment.experiment_id
        tags = {"a3c-zoo.env": run.env_name, "a3c-zoo.agent": run.agent_name}
        made = self._client.create_run(experiment_id, run_name=run.path.name, tags=tags)
        self._run_id = made.info.run_id
        keep_id(file, self._run_id)
        self._log_settings(self._run_id, run.config.to_dict())

    def _log_settings(self, run_id: str, config: dict[str, Any]) -> None:
        from mlflow.entities import Param

        settings = {key: value for key, value in config.items() if not isinstance(value, dict)}
        for section, values in config.items():
            if isinstance(values, dict):
                settings |= {f"{section}.{key}": value for key, value in values.items()}
        params = [Param(key, str(value)[:LONGEST]) for key, value in settings.items()]
        for start in range(0, len(params), 100):  # the most that a server takes at once
            self._client.log_batch(run_id, params=params[start : start + 100])

    @hookimpl
    def zoo_metrics(self, progress: Progress) -> None:
        """Sends a point of each curve, at most one in `every_s` seconds."""
        self._newest = progress
        if self._run_id is not None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + PAUSE_S
            self._send(self._run_id, point(progress), progress.steps)
            self._next_s = time.monotonic() + self._config.every_s

    def _send(self, run_id: str, values: dict[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now_ms, step) for name, value in values.items()]
        self._client.log_batch(run_id, metrics=metrics)

    @hookimpl
    def zoo_run_end(self, outcome: Outcome) -> None:
        """Sends the last point and how the run ended."""
        run_id = self._run_id
        if run_id is None:
            return
        if self._newest is not None:
            self._send(run_id, point(self._newest), self._newest.steps)
        figures = final_figures(outcome)
        numbers = {f"final/{name}": value for name, value in figures.items() if isinstance(value, int | float)}
        self._send(run_id, numbers, outcome.steps)
        for name in ("reason", "detail"):
            self._client.set_tag(run_id, f"a3c-zoo.{name}", figures[name])
        self._client.set_terminated(run_id, "FAILED" if outcome.reason == "error" else "FINISHED")

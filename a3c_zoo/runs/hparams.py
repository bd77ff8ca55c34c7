"""What TensorBoard's page HPARAMS shows of a run: its configuration and its final figures."""

from __future__ import annotations

from typing import Any

from a3c_zoo.config import Config
from a3c_zoo.records import Outcome

#: Keys of the section `run` that are shown, beside all keys of the other sections.
SHOWN_OF_RUN = ("seed", "workers")


def final_values(config: Config, outcome: Outcome) -> dict[str, float | bytes]:
    """Points of curves by name: figures, and messages of TensorBoard's plugin hparams as bytes."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    played = outcome.mean_return_100
    if outcome.last_evaluation:
        played = outcome.last_evaluation.mean_return
    final = {
        "steps": outcome.steps,
        "training_s": outcome.training_s,
        "solved": outcome.solved,
        "mean_return": played,
    }
    figures = {f"final/{name}": float(value) for name, value in final.items() if value is not None}
    start = plugin_data_pb2.SessionStartInfo()
    infos = []
    for key, value in _settings(config).items():
        if isinstance(value, bool):
            start.hparams[key].bool_value = value
            kind = "DATA_TYPE_BOOL"
        elif isinstance(value, int | float):
            start.hparams[key].number_value = value
            kind = "DATA_TYPE_FLOAT64"
        else:
            start.hparams[key].string_value = str(value)
            kind = "DATA_TYPE_STRING"
        infos.append(api_pb2.HParamInfo(name=key, type=kind))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in map("final/{}".format, final)]
    if outcome.reason == "error":
        status = api_pb2.STATUS_FAILURE
    else:
        status = api_pb2.STATUS_SUCCESS
    parts = {
        metadata.EXPERIMENT_TAG: {"experiment": api_pb2.Experiment(hparam_infos=infos, metric_infos=metrics)},
        metadata.SESSION_START_INFO_TAG: {"session_start_info": start},
        metadata.SESSION_END_INFO_TAG: {"session_end_info": plugin_data_pb2.SessionEndInfo(status=status)},
    }
    version = metadata.PLUGIN_DATA_VERSION
    messages = {
        tag: plugin_data_pb2.HParamsPluginData(version=version, **part) for tag, part in parts.items()
    }
    return figures | {tag: message.SerializeToString() for tag, message in messages.items()}


def _settings(config: Config) -> dict[str, Any]:
    """The configuration that is shown; keys without a value are left out."""
    shown: dict[str, Any] = {"env": config.env_name, "agent": config.agent_name}
    for name, section in config.sections().items():
        of_run = SHOWN_OF_RUN if name == "run" else None
        values = section.model_dump(mode="json", include=of_run and set(of_run))
        shown |= {f"{name}.{key}": value for key, value in values.items() if value is not None}
    return shown

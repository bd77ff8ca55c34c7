"""Words of other programs, and what to type here in their place.

The other programs are RL Baselines3 Zoo, stable-baselines3, CleanRL, RLlib, and the A3C programs of textbooks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import Any, Final

#: Keys of configurations → words that mean the same elsewhere. The first key that a configuration has is meant.
_KEYS: Final[Mapping[tuple[str, ...], str]] = {
    ("optimizer.learning_rate", "agent.learning_rate"): "lr step_size base_lr initial_lr",
    (
        "run.steps",
    ): "timesteps total_timesteps n_timesteps num_timesteps max_timesteps total_steps max_steps env_steps "
    "total_env_steps stop_timesteps step_budget",
    ("run.episodes",): "n_episodes num_episodes max_episodes total_episodes",
    ("run.time_limit_s",): "time_limit max_time wall_time max_seconds",
    ("run.seed",): "random_seed rng_seed random_state",
    ("run.device",): "cuda gpu use_cuda use_gpu",
    ("run.stop_return",): "target_return target_reward stop_reward reward_threshold solved_threshold",
    (
        "run.workers",
    ): "num_workers n_workers num_processes n_processes processes num_actors n_actors actors n_jobs "
    "num_env_runners nproc cpus num_cpus cores",
    ("run.evaluation_every_steps",): "eval_freq eval_interval eval_every evaluation_interval evaluation_freq",
    ("run.evaluator_episodes",): "n_eval_episodes eval_episodes num_eval_episodes",
    ("run.evaluation_envs",): "n_eval_envs num_eval_envs",
    ("run.checkpoint_every_steps",): "save_freq save_interval save_every checkpoint_freq checkpoint_interval "
    "checkpoint_every",
    ("env.num_envs",): "n_envs num_env n_env envs envs_per_worker num_envs_per_worker",
    ("env.frame_stack",): "n_stack num_stack stack_frames stack_size",
    ("env.frame_skip",): "skip action_repeat frames_per_action",
    ("env.max_episode_steps",): "max_episode_length max_ep_len episode_length max_episode_len horizon",
    (
        "agent.n_steps",
    ): "num_steps rollout_length rollout_len rollout_steps rollout_fragment_length unroll_length "
    "t_max tmax n_rollout_steps",
    ("agent.update_samples", "agent.batch_size"): "batch batch_size minibatch_size mini_batch_size "
    "sgd_minibatch_size train_batch_size",
    ("agent.gamma",): "discount discount_factor discount_rate",
    ("agent.gae_lambda",): "gae lambda lambda_ lam gae_lam tau",
    (
        "agent.entropy_coefficient",
        "agent.ent_coef",
    ): "entropy entropy_coef entropy_coeff entropy_beta entropy_weight "
    "entropy_bonus entropy_cost ent_weight beta",
    (
        "agent.value_coefficient",
        "agent.vf_coef",
    ): "value_coef value_coeff value_loss_coef value_loss_coeff vf_coeff "
    "vf_loss_coeff value_loss_weight critic_coef",
    (
        "agent.clip_ratio",
        "agent.clip_range",
    ): "clip clip_coef clip_param clip_eps eps_clip ppo_clip cliprange",
    ("agent.epochs", "agent.n_epochs"): "update_epochs num_epochs ppo_epochs ppo_epoch k_epochs noptepochs "
    "num_sgd_iter",
    ("agent.normalize_advantages", "agent.normalize_advantage"): "norm_adv normalize_adv norm_advantage",
    ("agent.clip_rewards",): "clip_reward reward_clip reward_clipping",
    ("agent.reward_scale",): "norm_reward norm_rewards normalize_reward normalize_rewards reward_scaling",
    ("agent.torch_threads",): "num_threads torch_num_threads",
    ("agent.vec_env",): "",
    ("network.normalize_observations", "agent.normalize"): "norm_obs normalize_obs normalise_observations",
    (
        "network.hidden_sizes",
        "agent.net_arch",
    ): "hidden hidden_size hidden_dim hidden_units hidden_layers layers fcnet_hiddens",
    (
        "network.activation",
        "agent.activation",
    ): "activation_fn activation_function nonlinearity fcnet_activation",
    ("network.recurrent",): "lstm gru rnn use_lstm use_rnn",
    ("network.recurrent_size",): "lstm_hidden_size lstm_size lstm_cell_size rnn_size",
    ("network.name",): "network model net",
    ("optimizer.name",): "optimizer optim",
    ("optimizer.epsilon",): "eps adam_eps adam_epsilon rms_prop_eps rmsprop_eps",
    ("optimizer.schedule", "agent.learning_rate_schedule"): "anneal_lr lr_schedule lr_decay lr_anneal",
    (
        "optimizer.max_grad_norm",
        "agent.max_grad_norm",
    ): "grad_clip grad_norm clip_grad clip_grad_norm gradient_clip gradient_clipping max_gradient_norm",
}

#: Words that stand for a value, too.
_VALUES: Final = {
    "cuda": "cuda",
    "gpu": "cuda",
    "use_cuda": "cuda",
    "use_gpu": "cuda",
    "lstm": "lstm",
    "use_lstm": "lstm",
    "rnn": "lstm",
    "use_rnn": "lstm",
    "gru": "gru",
    "anneal_lr": "linear",
    "lr_anneal": "linear",
    "norm_reward": "auto",
    "norm_rewards": "auto",
    "normalize_reward": "auto",
    "normalize_rewards": "auto",
}

#: The values that switch off what a word of `_VALUES` switches on.
_OFF: Final = {"cuda": "cpu", "lstm": "none", "gru": "none", "linear": "constant", "auto": "1"}
_NO: Final = ("false", "0", "no", "off", "none", "null")
#: Values that such a word may have here.
_CHOICES: Final = ("cuda", "cpu", "lstm", "gru", "linear", "constant", "auto")

#: Commands with an environment among their arguments.
_TAKE_ENVS: Final = ("train", "tune", "compare", "evaluate", "play", "export", "check", "show hyperparams")

#: Option elsewhere → what to type here, the first whose option the command has. `{value}` is the value that was given.
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "env": ("{env}",),
    "env_id": ("{env}",),
    "env_name": ("{env}",),
    "environment": ("{env}",),
    "gym_id": ("{env}",),
    "game": ("{env}",),
    "task": ("{env}",),
    "algo": ("--agent {agent}",),
    "alg": ("--agent {agent}",),
    "algorithm": ("--agent {agent}",),
    "n": ("--steps {value}", "--episodes {value}"),
    "n_eval_episodes": ("--episodes {value}",),
    "eval_episodes": ("--episodes {value}",),
    "f": ("--runs-dir {value}",),
    "folder": ("--runs-dir {value}",),
    "log_folder": ("--runs-dir {value}",),
    "log_dir": ("--runs-dir {value}",),
    "logdir": ("--runs-dir {value}",),
    "save_dir": ("--runs-dir {value}",),
    "save_path": ("--runs-dir {value}",),
    "output_dir": ("--runs-dir {value}",),
    "results_dir": ("--runs-dir {value}",),
    "exp_name": ("--name {value}",),
    "exp_id": ("--name {value}",),
    "run_name": ("--name {value}",),
    "run_id": ("--name {value}",),
    "experiment_name": ("--name {value}",),
    "i": ("--init-from {value}",),
    "trained_agent": ("--init-from {value}",),
    "load_model": ("--init-from {value}",),
    "pretrained": ("--init-from {value}",),
    "load_best": ("--checkpoint best",),
    "load_last_checkpoint": ("--checkpoint final",),
    "load_checkpoint": ("--checkpoint {value}",),
    "conf": ("--hyperparams {value}",),
    "conf_file": ("--hyperparams {value}",),
    "config": ("--hyperparams {value}",),
    "config_file": ("--hyperparams {value}",),
    "params": ("--hyperparams {value}",),
    "hyperparameters": ("--hyperparams {value}",),
    "n_trials": ("--trials {value}", "a3c-zoo tune ENV --trials {value}"),
    "study_name": ("--study {value}", "a3c-zoo tune ENV --study {value}"),
    "n_seeds": ("--seeds {value}",),
    "num_seeds": ("--seeds {value}",),
    "optimize": ("a3c-zoo tune ENV",),
    "optimize_hyperparameters": ("a3c-zoo tune ENV",),
    "torch_deterministic": ("--serial",),
    "continue": ("a3c-zoo resume",),
    "resume_from": ("--resume {value}",),
    "model_path": ("a3c-zoo evaluate RUN",),
    "render": ("a3c-zoo play RUN",),
    "record": ("--film-every 1", "--video film.mp4"),
    "record_video": ("--film-every 1", "--video film.mp4"),
    "capture_video": ("--film-every 1", "--video film.mp4"),
    "video_path": ("--video {value}",),
    "output": ("--video {value}", "--out {value}"),
    "tensorboard": ("a3c-zoo tensorboard",),
    "tensorboard_log": ("a3c-zoo tensorboard",),
    "tb": ("a3c-zoo tensorboard",),
    "track": ("-o plugins.wandb.enabled=true",),
    "wandb": ("-o plugins.wandb.enabled=true",),
    "wandb_project": ("-o plugins.wandb.project={value}",),
    "wandb_project_name": ("-o plugins.wandb.project={value}",),
    "gym_packages": ("gym:{value}:ID in place of the environment's name",),
}

#: Option elsewhere that a command takes otherwise than the others → what to type here.
_OF_COMMAND: Final[Mapping[tuple[str, str], str]] = {
    ("play", "no_render"): "Type: a3c-zoo evaluate RUN",
    ("play", "exp_id"): "Type: a3c-zoo play RUN, a name of: a3c-zoo list runs",
    ("evaluate", "exp_id"): "Type: a3c-zoo evaluate RUN, a name of: a3c-zoo list runs",
    ("tune", "optimize"): "Leave it out: tune searches for better values",
    ("tune", "optimize_hyperparameters"): "Leave it out: tune searches for better values",
}
#: Options elsewhere with pairs `KEY:VALUE` behind them → what stands before each key here.
_PAIRS: Final[Mapping[str, str]] = {"params": "", "env_kwargs": "env.kwargs."}
#: Long options of RL Zoo that begin with one dash.
ONE_DASH: Final = ("-params", "-conf", "-tb", "-optimize")
#: Words of other languages for values of YAML.
_YAML_WORDS: Final = {"True": "true", "False": "false", "None": "null"}

#: Options elsewhere that mean what happens here without an option.
_NEEDLESS: Final[Mapping[str, str]] = {
    "progress": "the progress is shown",
    "progress_bar": "the progress is shown",
    "p": "the progress is shown",
    "verbose": "the progress is shown; --quiet and --json show less",
    "v": "the progress is shown; --quiet and --json show less",
    "no_cuda": "the default is --device cpu",
    "no_render": "nothing is drawn",
    "policy": "the set chooses the network; others: a3c-zoo list networks",
    "save": "each run writes checkpoints",
    "save_model": "each run writes checkpoints",
    "log": "each run writes monitor.csv and TensorBoard's files",
    "norm_reward": "returns are those of the environment",
    "vec_env": "each worker is a process of its own",
    "num_threads": "each worker computes in one thread",
    "torch_num_threads": "each worker computes in one thread",
}

#: Agents elsewhere → the name here, and what else there is.
_AGENTS: Final[Mapping[str, tuple[str, str]]] = {
    "a2c": ("sb3-a2c", "stable-baselines3's A2C; the agent a3c is its asynchronous form"),
    "ppo": ("sb3-ppo", "stable-baselines3's PPO; the agent a3c has PPO's loss with agent.clip_ratio"),
    "ppo2": ("sb3-ppo", "stable-baselines3's PPO; the agent a3c has PPO's loss with agent.clip_ratio"),
    "dqn": ("sb3-dqn", "stable-baselines3's DQN"),
    "ppo_lstm": ("recurrent-ppo", "sb3-contrib's PPO with an LSTM"),
    "recurrentppo": ("recurrent-ppo", "sb3-contrib's PPO with an LSTM"),
    "recurrent_ppo": ("recurrent-ppo", "sb3-contrib's PPO with an LSTM"),
    "a3c_lstm": ("a3c", "with a core: -o network.recurrent=lstm"),
    "a3c_ff": ("a3c", "the network has this name: -o network.name=a3c-ff"),
    "async": ("a3c", "the asynchronous agent"),
    "hogwild": ("a3c", "its workers update the parameters without locks"),
    "reinforce": ("monte-carlo", "whole episodes, no bootstrap"),
    "mc": ("monte-carlo", "whole episodes, no bootstrap"),
    "n_step": ("nstep", "rollouts of N steps"),
    "actor_critic": ("a3c", "the asynchronous agent"),
    "ac": ("a3c", "the asynchronous agent"),
    "impala": ("a3c-data", "workers collect samples, a learner computes the updates"),
    "rand": ("random", "uniformly random actions"),
}
#: Agents elsewhere without one here → those that act in the same spaces.
_ABSENT: Final = {
    **dict.fromkeys(("sac", "td3", "ddpg", "tqc", "ars", "trpo", "her", "crossq"), ("a3c", "sb3-ppo")),
    **dict.fromkeys(("qrdqn", "qr_dqn", "rainbow", "c51", "ddqn", "double_dqn"), ("sb3-dqn",)),
    **dict.fromkeys(("acer", "acktr", "appo", "apex", "ppg"), ("a3c", "sb3-ppo")),
}

#: Command elsewhere → what to type here.
_COMMANDS: Final[Mapping[str, str]] = {
    "learn": "train",
    "fit": "train",
    "run": "train",
    "start": "train",
    "enjoy": "play",
    "watch": "play",
    "render": "play",
    "view": "play",
    "film": "play RUN --video film.mp4",
    "record": "play RUN --video film.mp4",
    "test": "evaluate",
    "eval": "evaluate",
    "benchmark": "compare",
    "bench": "compare",
    "versus": "compare",
    "optimize": "tune",
    "optimise": "tune",
    "hpo": "tune",
    "sweep": "tune",
    "search": "tune",
    "graph": "plot",
    "draw": "plot",
    "ls": "list runs",
    "runs": "list runs",
    "status": "list runs",
    "envs": "list envs",
    "environments": "list envs",
    "agents": "list agents",
    "algos": "list agents",
    "plugins": "list plugins",
    "hyperparams": "show hyperparams",
    "hyperparameters": "show hyperparams",
    "config": "show hyperparams",
    "delete": "rm",
    "remove": "rm",
    "clean": "rm",
    "del": "rm",
    "continue": "resume",
    "restart": "resume",
    "download": "pull",
    "fetch": "pull",
    "upload": "push",
    "publish": "push",
    "share": "push",
    "tb": "tensorboard",
    "logs": "tensorboard",
    "verify": "check",
    "validate": "check",
    "version": "--version",
    "diagnose": "doctor",
}


def plain(word: str) -> str:
    """A word without case, dashes in front, and differences between `-`, `_` and blanks."""
    return re.sub(r"[-_\s]+", "_", word.strip().lstrip("-").casefold()).strip("_")


_KEYS_OF: Final[dict[str, list[tuple[str, ...]]]] = {}
for _names, _words in _KEYS.items():
    for _word in (*_words.split(), *(name.rpartition(".")[2] for name in _names)):
        _KEYS_OF.setdefault(plain(_word), []).append(_names)


def key_for(word: str, known: Collection[str]) -> str | None:
    """The key that another program's word means, as `section.key`; None if it means none of `known`."""
    return next((name for name in keys_for(word.rpartition(".")[2]) if name in known), None)


def value_for(word: str, value: Any) -> Any:
    """The value to give: `value`, or the one that the word stands for, as `cuda` does without a value."""
    meant = _VALUES.get(plain(word.rpartition(".")[2]))
    if meant is None:
        return value
    if value is None:
        return meant
    said = str(value).casefold()
    is_first_gpu = meant == "cuda" and said == "0"
    if said in _NO and not is_first_gpu:
        return _OFF[meant]
    return said if said in _CHOICES else meant


def agent_for(name: str, known: Collection[str]) -> str | None:
    """The agent here that another program's name means; None if there is none."""
    here, _ = _AGENTS.get(plain(name), ("", ""))
    return here if here in known else None


def agent_cure(name: str, known: Collection[str], option: str = "--agent") -> str | None:
    """What to type in place of another program's agent; None if nothing is known of it.

    option: that stands before the name, "" for none.
    """
    if here := agent_for(name, known):
        return f"Type: {option} {here} ({_AGENTS[plain(name)][1]})".replace("Type:  ", "Type: ")
    others = [each for each in _ABSENT.get(plain(name), ()) if each in known]
    if not others:
        return None
    words = " or ".join(f"{option} {each}".strip() for each in others)
    return f"It is not here. Type: {words}"


def command_cure(word: str) -> str | None:
    """What to type in place of another program's command; None if nothing is known of it."""
    here = _COMMANDS.get(plain(word))
    return here and f"Type: a3c-zoo {here}"


def option_cure(
    option: str, value: str | None, options: Collection[str], command: str, agents: Collection[str] = ()
) -> str | None:
    """What to type in place of another program's option; None if nothing is known of it.

    Args:
        option: as it was typed, such as `--lr`. value: that follows it, None if none does.
        options: those that the command has, such as `--agent` and `-o`. command: its words.
        agents: the names of agents here.
    """
    word = plain(option)
    if cure := _OF_COMMAND.get((command, word)):
        return cure
    for template in _OPTIONS.get(word, ()):
        first = template.partition(" ")[0]
        if first.startswith("-") and first not in options:
            continue
        if first == "{env}" and command not in _TAKE_ENVS:
            continue
        given = value or _placeholder(template)
        is_sb3s = given.endswith(".zip")  # a model of stable-baselines3 is no run
        if is_sb3s and template.startswith("--init-from"):
            given = "RUN"
        agent = agent_for(given, agents) or given
        env = f"a3c-zoo {command} {shlex.quote(given)}"
        return f"Type: {template.format(value=shlex.quote(given), agent=agent, env=env)}"
    if word in _NEEDLESS:
        return f"Leave it out: {_NEEDLESS[word]}"
    return None


def pairs_cure(option: str, words: Iterable[str]) -> str | None:
    """What to type in place of an option with pairs `KEY:VALUE` behind it; None for another option, or without pairs.

    words: that follow the option.
    """
    before = _PAIRS.get(plain(option))
    if before is None:
        return None
    found = takewhile(bool, (re.fullmatch(r"(\w[\w.]*)[:=](.+)", word) for word in words))
    texts = [f"{before}{pair[1]}={_YAML_WORDS.get(pair[2], pair[2])}" for pair in found if pair]
    return f"Type: {' '.join(f'-o {shlex.quote(text)}' for text in texts)}" if texts else None


def _placeholder(template: str) -> str:
    """Stands for a value that was not given."""
    if "{agent}" in template:
        return "NAME"
    if "{env}" in template:
        return "ENV"
    return "VALUE"


def keys_for(word: str) -> tuple[str, ...]:
    """The keys that another program's word can mean, as `section.key`; agents differ in which they have."""
    meant = _KEYS_OF.get(plain(word), [])
    return tuple(name for names in meant for name in names)

"""What people type who know other programs: each mistake is one line with a cure, and the cure is tried."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from a3c_zoo.cli.mistyped import refuse_torn_values
from a3c_zoo.cures import install_plugin
from tests.toys_runs import command_line

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: Captured, line: str) -> str:
    """Runs a command line that must fail, and returns what it says in its one line."""
    assert command_line(*shlex.split(line)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1, captured.err
    assert len(captured.err) < 400, captured.err
    assert not Path("runs").exists()
    return captured.err.removeprefix("Error: ").removesuffix("\n")


def taken(capsys: Captured, line: str) -> None:
    """Runs a command line that must be taken. `train` only says what it would do."""
    words = shlex.split(line.removeprefix("a3c-zoo "))
    if words[0] == "train":
        words += ["--dry-run", "--serial"]
    status = command_line(*words)
    assert (status, capsys.readouterr().err.count("Error")) == (0, 0), line


#: Behind `a3c-zoo train cartpole`: what RL Zoo, CleanRL, RLlib and the A3C programs call it, and what it is here.
OPTIONS = [
    ("--lr 1e-3", "-o optimizer.learning_rate=1e-3"),
    ("--learning-rate 7e-4", "-o optimizer.learning_rate=7e-4"),
    ("--total-timesteps 1000000", "--steps 1000000"),
    ("--total_timesteps=1e6", "--steps 1e6"),
    ("--timesteps 50000", "--steps 50000"),
    ("--n-timesteps 50000", "--steps 50000"),
    ("--max-steps 50000", "--steps 50000"),
    ("-n 50000", "--steps 50000"),
    ("--algo a3c", "--agent a3c"),
    ("--algo ppo", "--agent sb3-ppo"),
    ("--algo A2C", "--agent sb3-a2c"),
    ("--n-envs 4", "-o env.num_envs=4"),
    ("--num-envs 4", "-o env.num_envs=4"),
    ("--num-workers 2", "--workers 2"),
    ("--num-processes 2", "--workers 2"),
    ("--num-env-runners 2", "--workers 2"),
    ("--num-steps 20", "-o agent.n_steps=20"),
    ("--n-steps 20", "-o agent.n_steps=20"),
    ("--t-max 20", "-o agent.n_steps=20"),
    ("--gamma 0.99", "-o agent.gamma=0.99"),
    ("--gae-lambda 0.95", "-o agent.gae_lambda=0.95"),
    ("--tau 0.95", "-o agent.gae_lambda=0.95"),
    ("--ent-coef 0.01", "-o agent.entropy_coefficient=0.01"),
    ("--entropy-coef 0.01", "-o agent.entropy_coefficient=0.01"),
    ("--vf-coef 0.5", "-o agent.value_coefficient=0.5"),
    ("--value-loss-coef 0.5", "-o agent.value_coefficient=0.5"),
    ("--max-grad-norm 0.5", "-o optimizer.max_grad_norm=0.5"),
    ("--grad-clip 0.5", "-o optimizer.max_grad_norm=0.5"),
    ("--norm-adv true", "-o agent.normalize_advantages=true"),
    ("--anneal-lr", "-o optimizer.schedule=linear"),
    ("--use-lstm", "-o network.recurrent=lstm"),
    ("--random-seed 3", "--seed 3"),
    ("--max-episode-length 100", "-o env.max_episode_steps=100"),
    ("--n-episodes 100", "--episodes 100"),
    ("--max-time 90", "--time-limit 90s"),
    ("--reward-threshold 400", "--stop-return 400"),
    ("--eval-freq 10000", "-o run.evaluation_every_steps=10000"),
    ("--eval-episodes 5", "-o run.evaluator_episodes=5"),
    ("--save-freq 10000", "-o run.checkpoint_every_steps=10000"),
    ("--log-folder logs", "--runs-dir logs"),
    ("--exp-name first", "--name first"),
    ("-f logs", "--runs-dir logs"),
    ("-params learning_rate:0.001 n_steps:8", "-o learning_rate=0.001 -o n_steps=8"),
    ("--params learning_rate:0.001 --seed 1", "-o learning_rate=0.001"),
    ("--params=gamma:0.9", "-o gamma=0.9"),
    ("--env-kwargs sutton_barto_reward:True", "-o env.kwargs.sutton_barto_reward=true"),
    ("--agent sb3-a2c --vec-env subproc", "-o agent.vec_env=subproc"),
    ("--agent sb3-a2c --num-threads 1", "-o agent.torch_threads=1"),
    ("--torch-deterministic", "--serial"),
]


@pytest.mark.parametrize(("mistake", "cure"), OPTIONS)
def test_an_option_of_another_program(mistake: str, cure: str, capsys: Captured) -> None:
    said = refused(capsys, f"train cartpole {mistake}")
    agent = "--agent sb3-a2c " if mistake.startswith("--agent ") else ""
    option = re.split("[ =]", mistake.removeprefix(agent))[0]
    assert re.fullmatch(rf"No such option '{option}'\. Type: {re.escape(cure)}", said)
    taken(capsys, f"train cartpole {agent}{cure}")


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("train --env CartPole-v1", "Type: a3c-zoo train CartPole-v1"),
        ("train --env-id CartPole-v1 --seed 1", "Type: a3c-zoo train CartPole-v1"),
        ("train cartpole --n-trials 30", "Type: a3c-zoo tune ENV --trials 30"),
        ("train cartpole --optimize", "Type: a3c-zoo tune ENV"),
        ("train cartpole --conf-file my.yml", "Type: --hyperparams my.yml"),
        ("train cartpole --trained-agent runs/x", "Type: --init-from runs/x"),
        ("train cartpole --tensorboard-log logs", "Type: a3c-zoo tensorboard"),
        ("train cartpole --trained-agent logs/a2c/model.zip", "Type: --init-from RUN"),
        ("train cartpole -i model.zip", "No such option '-i'. Type: --init-from RUN"),
        ("train cartpole -i runs/x", "No such option '-i'. Type: --init-from runs/x"),
        ("train cartpole -optimize --n-trials 30", "No such option '-optimize'. Type: a3c-zoo tune ENV"),
        ("tune cartpole -optimize", "Leave it out: tune searches for better values"),
        ("tune cartpole --optimize", "Leave it out: tune searches for better values"),
        ("train cartpole -conf my.yml", "No such option '-conf'. Type: --hyperparams my.yml"),
        ("train cartpole --params my.yml", "Type: --hyperparams my.yml"),
        ("train cartpole -tb logs", "No such option '-tb'. Type: a3c-zoo tensorboard"),
        ("train cartpole --vec-env subproc", "Leave it out: each worker is a process of its own"),
        ("train cartpole --num-threads 1", "Leave it out: each worker computes in one thread"),
        ("play RUN --no-render", "Type: a3c-zoo evaluate RUN"),
        ("evaluate RUN --no-render", "Leave it out: nothing is drawn"),
        ("play cartpole --exp-id 3", "Type: a3c-zoo play RUN, a name of: a3c-zoo list runs"),
        ("train cartpole --render", "Type: a3c-zoo play RUN"),
        ("train cartpole --capture-video", "Type: --film-every 1"),
        ("train cartpole --progress", "Leave it out: the progress is shown"),
        ("train cartpole --verbose 1", "Leave it out: the progress is shown; --quiet and --json show less"),
        ("train cartpole --no-cuda", "Leave it out: the default is --device cpu"),
        ("train cartpole --cuda", "Type: --device cuda"),
        ("train cartpole --cuda False", "Type: --device cpu"),
        ("train cartpole --gpu 2", "Type: --device cuda"),
        ("train cartpole --gpu 0", "Type: --device cuda"),
        ("train cartpole -o lstm=256", "Type: -o network.recurrent=lstm"),
        ("train cartpole --anneal-lr constant", "Type: -o optimizer.schedule=constant"),
        ("train cartpole --anneal-lr false", "Type: -o optimizer.schedule=constant"),
        ("train cartpole --norm-reward 0", "Type: -o agent.reward_scale=1"),
        ("train cartpole --norm-reward 1", "Type: -o agent.reward_scale=auto"),
        ("train cartpole -o use_lstm=false", "Type: -o network.recurrent=none"),
        ("train cartpole -o rnn=gru", "Type: -o network.recurrent=gru"),
        ("train cartpole --dry", "Did you mean '--dry-run'?"),
        ("train cartpole --workrs 2", "Did you mean '--workers'?"),
        ("evaluate cartpole --n-eval-episodes 5", "Type: --episodes 5"),
        ("evaluate cartpole -n 5", "Type: --episodes 5"),
        ("evaluate cartpole --load-best", "Type: --checkpoint best"),
        ("play cartpole --video-path x.mp4", "Type: --video x.mp4"),
        ("tune cartpole --n-trials 5", "Type: --trials 5"),
        ("tune cartpole --study-name x", "Type: --study x"),
        ("compare cartpole --num-seeds 5", "Type: --seeds 5"),
        ("train cartpole --policy MlpPolicy", "the set chooses the network; others: a3c-zoo list networks"),
        ("train cartpole a3c", "Got unexpected extra argument (a3c). Type: --agent a3c"),
        ("train cartpole --resume", "Option '--resume' requires an argument. Type: a3c-zoo resume"),
        ("train cartpole -o agent=sb3-ppo", "unknown key. Type: --agent sb3-ppo"),
        ("train -o env=pong cartpole", "The environment stands without an option. Type: a3c-zoo train pong"),
        ("show cartpole", "Type: a3c-zoo show hyperparams cartpole"),
        ("show LunarLander-v3", "Type: a3c-zoo show hyperparams LunarLander-v3"),
        ("list environments", "unknown listing 'environments'. Type: a3c-zoo list envs"),
        ("train cartpole --frobnicate", "No such option '--frobnicate'. See: a3c-zoo train --help"),
    ],
)
def test_an_option_that_is_another_way_here(line: str, cure: str, capsys: Captured) -> None:
    assert refused(capsys, line).endswith(cure) or f"{cure} See:" in refused(capsys, line)


#: Agent, key elsewhere with its value, and what it is here.
KEYS = [
    ("a3c", "lr=1e-3", "optimizer.learning_rate=0.001"),
    ("a3c", "n_envs=4", "env.num_envs=4"),
    ("a3c", "ent_coef=0.01", "agent.entropy_coefficient=0.01"),
    ("a3c", "vf_coef=0.5", "agent.value_coefficient=0.5"),
    ("a3c", "batch_size=80", "agent.update_samples=80"),
    ("a3c", "timesteps=50000", "run.steps=50000"),
    ("a3c", "n_timesteps=50000", "run.steps=50000"),
    ("a3c", "num_steps=20", "agent.n_steps=20"),
    ("a3c", "lam=0.9", "agent.gae_lambda=0.9"),
    ("a3c", "n_epochs=1", "agent.epochs=1"),
    ("a3c", "discount=0.9", "agent.gamma=0.9"),
    ("a3c", "net_arch=[32, 32]", "network.hidden_sizes=[32, 32]"),
    ("a3c", "activation_fn=relu", "network.activation=relu"),
    ("a3c", "optimizer=rmsprop", "optimizer.name=rmsprop"),
    ("a3c", "network=mlp", "network.name=mlp"),
    ("a3c", "norm_obs=true", "network.normalize_observations=true"),
    ("a3c", "Entropy-Coefficient=0.1", "agent.entropy_coefficient=0.1"),
    ("sb3-ppo", "lr=1e-3", "agent.learning_rate=0.001"),
    ("sb3-ppo", "clip_ratio=0.1", "agent.clip_range=0.1"),
    ("sb3-ppo", "epochs=5", "agent.n_epochs=5"),
    ("sb3-ppo", "entropy_coefficient=0.01", "agent.ent_coef=0.01"),
    ("sb3-ppo", "minibatch_size=64", "agent.batch_size=64"),
    ("sb3-a2c", "value_coefficient=0.4", "agent.vf_coef=0.4"),
]


@pytest.mark.parametrize(("agent", "mistake", "cure"), KEYS)
def test_a_key_of_another_program(agent: str, mistake: str, cure: str, capsys: Captured) -> None:
    base = f"show hyperparams cartpole --agent {agent}"
    said = refused(capsys, f"{base} -o '{mistake}'")
    assert said == f"-o {mistake.partition('=')[0]}: unknown key. Type: -o {shlex.quote(cure)}"
    taken(capsys, f"{base} -o '{cure}'")


def test_an_agent_that_is_typed_as_a_key(capsys: Captured) -> None:
    assert refused(capsys, "train cartpole -o agent=ppo").endswith("Type: --agent sb3-ppo")
    assert refused(capsys, "train cartpole -o agent=a3c").endswith("Type: --agent a3c")


def test_clip_range_needs_what_a_clip_ratio_needs(capsys: Captured) -> None:
    assert "Type: -o agent.clip_ratio=0.2" in refused(capsys, "train cartpole -o clip_range=0.2")


#: Behind `train cartpole`: values that a shell or a hand has changed.
VALUES = [
    ("-o n_steps = 20", "-o n_steps=20"),
    ("-o n_steps= 20", "-o n_steps=20"),
    ("-o n_steps =20", "-o n_steps=20"),
    ("-o n_steps 20", "-o n_steps=20"),
    ("-o=n_steps=20", "-o n_steps=20"),
    ("-o =n_steps=20", "-o n_steps=20"),
    ("-o n-steps=20", "-o agent.n_steps=20"),
    ("-o hidden_sizes=[64, 64]", "-o 'hidden_sizes=[64, 64]'"),
    ("-o hidden_sizes = [64, 64]", "-o 'hidden_sizes=[64, 64]'"),
    ("-o env.kwargs={sutton_barto_reward: true}", "-o 'env.kwargs={sutton_barto_reward: true}'"),
    ("-o hidden_sizes=64,64", "-o 'network.hidden_sizes=[64, 64]'"),
    ("-o 'hidden_sizes=(64, 64)'", "-o 'network.hidden_sizes=[64, 64]'"),
    ("-o hidden_sizes=64", "-o 'network.hidden_sizes=[64]'"),
    ("-o n_steps=20,gamma=0.9", "-o n_steps=20 -o gamma=0.9"),
    ("-o 'n_steps=20, gamma=0.9'", "-o n_steps=20 -o gamma=0.9"),
    ("-o run.steps=1M", "-o run.steps=1000000"),
    ("-o steps=250k", "-o run.steps=250000"),
]


@pytest.mark.parametrize(("mistake", "cure"), VALUES)
def test_a_value_that_is_torn_apart(mistake: str, cure: str, capsys: Captured) -> None:
    assert refused(capsys, f"train cartpole {mistake}").endswith(f"Type: {cure}")
    taken(capsys, f"train cartpole {cure}")


def test_a_bracket_that_nothing_closes_is_a_part_of_its_value() -> None:
    refuse_torn_values(shlex.split("train x -o 'env.kwargs.text=a (b' --steps 100 --quiet"))


def test_a_sign_of_equality_at_the_end_is_a_part_of_its_value() -> None:
    refuse_torn_values(shlex.split("train -o env.kwargs.token=abc= cartpole"))
    refuse_torn_values(["train", "-o", "", "cartpole"])  # an unset variable: refused where it is read


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("--steps 1.5", "'1.5' is no whole number; write 250000, 250k, 1M or 1e6"),
        ("--steps 1e-3", "'1e-3' is no whole number; write 250000, 250k, 1M or 1e6"),
        ("--steps many", "'many' is no whole number; write 250000, 250k, 1M or 1e6"),
        (f"--steps {'9' * 5000}", "'99999999999999999999…' has more than 100 digits"),
        (f"--episodes {'9' * 101}", "'99999999999999999999…' has more than 100 digits"),
        ("--steps 1,000,000", "'1,000,000' is no whole number; write 250000, 250k, 1M or 1e6"),
        ("--workers two", "'two' is no whole number; write one such as 4, or auto"),
        ("--seed x", "'x' is no whole number; write one such as 1"),
        ("--time-limit 90", "'90' is no duration; write 90s, 10m or 2h"),
        ("--device gpu", "'gpu' is not one of 'cpu', 'cuda'"),
        ("-o gamma", "must read KEY=VALUE, such as agent.n_steps=5"),
    ],
)
def test_a_value_of_another_form(mistake: str, says: str, capsys: Captured) -> None:
    assert says in refused(capsys, f"train cartpole {mistake}")


@pytest.mark.parametrize(
    ("number", "steps"),
    [("1e6", 10**6), ("1M", 10**6), ("250k", 250_000), ("1_000", 1000), ("2.5e5", 250_000), ("0.5m", 500_000)],
)
def test_numbers_of_steps(number: str, steps: int, capsys: Captured) -> None:
    assert command_line("train", "cartpole", "--steps", number, "--dry-run", "--serial") == 0
    assert f"budget        at least {steps:,} steps\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("a2c", "--agent sb3-a2c"),
        ("A2C", "--agent sb3-a2c"),
        ("ppo", "--agent sb3-ppo"),
        ("dqn", "--agent sb3-dqn"),
        ("ppo_lstm", "--agent recurrent-ppo"),
        ("reinforce", "--agent monte-carlo"),
        ("impala", "--agent a3c-data"),
    ],
)
def test_an_agent_of_another_program(name: str, cure: str, capsys: Captured) -> None:
    said = refused(capsys, f"train cartpole --agent {name}")
    assert said.startswith(f"unknown agent '{name}'. Type: {cure} (")
    taken(capsys, f"show hyperparams cartpole {cure}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("train cartpole --agent sac", "unknown agent 'sac'. It is not here. Type: --agent a3c or --agent sb3-ppo"),
        ("train cartpole --agent qrdqn", "unknown agent 'qrdqn'. It is not here. Type: --agent sb3-dqn"),
        ("train cartpole --agent a3", "unknown agent 'a3'. Did you mean 'a3c'? See: a3c-zoo list agents"),
        ("train cartpole --agent a4c", "unknown agent 'a4c'. Did you mean 'a3c'? See: a3c-zoo list agents"),
        ("train cartpole --agent xyz", "unknown agent 'xyz'. See: a3c-zoo list agents"),
        ("compare cartpole --agent a2c", "Type: --baseline sb3-a2c ("),
        ("compare cartpole --baseline ppo", "Type: --baseline sb3-ppo ("),
        ("compare cartpole --method a2c --method a3c", "Type: sb3-a2c ("),
    ],
)
def test_an_agent_that_is_not_here(line: str, says: str, capsys: Captured) -> None:
    assert says in refused(capsys, line)


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("enjoy", "play"),
        ("learn", "train"),
        ("run", "train"),
        ("eval", "evaluate"),
        ("test", "evaluate"),
        ("benchmark", "compare"),
        ("optimize", "tune"),
        ("ls", "list runs"),
        ("envs", "list envs"),
        ("hyperparams", "show hyperparams"),
        ("delete", "rm"),
        ("continue", "resume"),
        ("upload", "push"),
        ("tb", "tensorboard"),
    ],
)
def test_a_command_of_another_program(word: str, command: str, capsys: Captured) -> None:
    assert refused(capsys, f"{word} x") == f"unknown command '{word}'. Type: a3c-zoo {command}"
    taken(capsys, f"help {command if command.startswith('show') else command.split()[0]}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("init", "unknown command 'init'. See: a3c-zoo --help"),
        ("trian cartpole", "unknown command 'trian'. Did you mean 'train'? See: a3c-zoo --help"),
        ("help trian", "unknown command 'trian'. Did you mean 'train'? See: a3c-zoo --help"),
        ("help show hyperparam", "unknown command 'hyperparam'. Did you mean 'hyperparams'? See: a3c-zoo show --help"),
        ("help train cartpole", "'a3c-zoo train' has no command below it: leave out 'cartpole'"),
        ("train cartpol", "unknown environment 'cartpol'. Did you mean 'cartpole'? See: a3c-zoo list envs"),
        ("train cart", "unknown environment 'cart'. Did you mean 'cartpole'? See: a3c-zoo list envs"),
        ("train maze", "unknown environment 'maze'. See: a3c-zoo list envs"),
        ("train Maze-v0", "An id of another package is named with its module: gym:MODULE:Maze-v0."),
        ("evaluate maze", "'maze' is no run here or in runs, no environment and no trained agent. To get one:"),
        ("train gym:LunarLander-v2", "Did you mean 'gym:LunarLander-v3'?"),
        ("train LunarLander-v2", "Did you mean 'gym:LunarLander-v3'?"),
        ("train atari:pongg", "unknown Atari game 'pongg'. Did you mean 'pong'?"),
        ("train cartpole --hyperparams a3x", "has no hyperparameter set 'a3x'."),
        ("train cartpole -o batch=big", "-o batch: unknown key. Type: -o agent.update_samples=big"),
        ("train cartpole -o frobnicate=1", "-o frobnicate: unknown key."),
        ("train cartpole -o optimizer.lr=1", "-o optimizer.lr: unknown key. Did you mean 'optimizer.learning_rate'?"),
        ("train cartpole -o optimizr.name=adam", "unknown section. Did you mean 'optimizer'?"),
        ("show cartpole --json", "No such command 'cartpole'. Type: a3c-zoo show hyperparams cartpole"),
        ("evaluate --json ''", "the name of a run is empty. See: a3c-zoo list runs"),
        ("train", "name an environment to train, or a run to --resume. See: a3c-zoo list envs"),
    ],
)
def test_a_slip_and_nothing_rather_than_nonsense(line: str, says: str, capsys: Captured) -> None:
    said = refused(capsys, line)
    assert says in said
    if not re.search("Did you mean|Type", says):
        assert "Did you mean" not in said


def test_files_of_the_current_folder_that_are_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fast.yml").touch()
    assert refused(capsys, "train cartpole --hyperparams fast").endswith("'fast'. Type: --hyperparams ./fast.yml")
    Path("lane.py").write_text("from a3c_zoo import hookimpl\n")
    assert refused(capsys, "train lane").endswith("'lane'. lane.py here is a plugin: add --plugin lane.py")


def test_a_hook_of_a_distribution_of_ours(capsys: Captured) -> None:
    said = refused(capsys, "train cartpole -o plugins.wandb.enabled=true")
    assert said.endswith(f"unknown run hook 'wandb'. It comes with: {install_plugin('a3c-zoo-wandb')}")


def test_a_list_of_all_games_never(capsys: Captured) -> None:
    said = refused(capsys, "train atari:zzz")
    assert re.search(r"Known: (\w+, ){8}and \d+ more$", said)


@pytest.mark.parametrize(
    ("text", "says", "right"),
    [
        (
            "n_steps: 20\n",
            "my.yml:1 n_steps: stands below no section. Type: agent: {n_steps: 20}",
            "agent: {n_steps: 20}",
        ),
        (
            "learning_rate: 1e-3\n",
            "my.yml:1 learning_rate: stands below no section. Type: optimizer: {learning_rate: 0.001}",
            "optimizer: {learning_rate: 0.001}",
        ),
        (
            "agent.gamma: 0.9\n",
            "my.yml:1 agent.gamma: stands below no section. Type: agent: {gamma: 0.9}",
            "agent: {gamma: 0.9}",
        ),
        (
            "ent_coef: 0.01\n",
            "my.yml:1 ent_coef: stands below no section. Type: agent: {entropy_coefficient: 0.01}",
            "agent: {entropy_coefficient: 0.01}",
        ),
        (
            "agent:\n\tn_steps: 20\n",
            "my.yml:2 a tab stands in this line. YAML takes blanks alone: replace each tab by two blanks",
            "agent:\n  n_steps: 20\n",
        ),
        ("agent:\n  n_steps:20\n", "must be a section with keys below it", "agent:\n  n_steps: 20\n"),
        ("n_steps:20\n", "A blank follows a colon: 'n_steps: 20'", "agent: {n_steps: 20}"),
        (
            "agent:\n  lr: 1e-3\n",
            "agent.lr: unknown key. Did you mean 'optimizer.learning_rate'?",
            "optimizer: {learning_rate: 1e-3}",
        ),
        ("frobnicate: 3\n", "my.yml:1 frobnicate: unknown section.", "agent: {n_steps: 20}"),
    ],
)
def test_a_file_of_values(text: str, says: str, right: str, capsys: Captured) -> None:
    Path("my.yml").write_text(text)
    assert says in refused(capsys, "train cartpole --hyperparams my.yml")
    Path("my.yml").write_text(right)
    taken(capsys, "train cartpole --hyperparams my.yml")


def test_help_is_asked_for_in_three_ways(capsys: Captured) -> None:
    shown = []
    for line in ("train -h", "train --help", "help train"):
        assert command_line(*line.split()) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0].startswith("Usage: a3c-zoo train [OPTIONS] [ENV]")
    assert shown[0] == shown[1] == shown[2]
    for line in ("-h", "help", "show hyperparams -h", "help show hyperparams", "list -h"):
        assert command_line(*line.split()) == 0
        assert capsys.readouterr().out.startswith("Usage: a3c-zoo")

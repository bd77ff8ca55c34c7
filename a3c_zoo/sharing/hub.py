"""Trained agents on a hub that speaks Hugging Face's API, for `a3c-zoo push` and `a3c-zoo pull`.

A stranger made what is pulled: six names are fetched, each up to its limit, and nothing that `play` refuses is kept.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import huggingface_hub as hf
from huggingface_hub import constants, errors
from huggingface_hub.hf_api import RepoFile

from a3c_zoo.errors import HubError, ZooError, printable, type_and_message
from a3c_zoo.files import MAX_TABLE, MAX_TEXT, read_bytes, replace_file, shown
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.api import load_from
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.sharing.card import CURVE, card_text, curve, figures, film_told
from a3c_zoo.sharing.save_trained import save_folder
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.store.run import Run
from a3c_zoo.store.run_files import CONFIG_YML, META_JSON, OUTCOME_JSON, PARAMETERS, PULLED_JSON
from a3c_zoo.store.trained import entry_of

#: The longest wait for the next bytes of an answer, and for a whole file, in seconds.
ANSWER_S, FILE_S = 30.0, 1800.0
#: For how long a whole answer may come that is no file, in seconds; and the most bytes that it may have.
WHOLE_ANSWER_S, MAX_ANSWER = 120.0, 8 << 20
#: Headers that tell how an answer was sent, and not what it is.
_OF_THE_TRANSFER: Final = {"content-encoding", "content-length", "transfer-encoding"}
CARD, FILM = "README.md", "replay.mp4"
#: Episodes that a run plays for its card.
EPISODES: Final = 100
#: Files of an agent, and all that are fetched → the most bytes of each.
AGENT: Final = dict.fromkeys((CONFIG_YML, META_JSON, OUTCOME_JSON), MAX_TEXT) | {PARAMETERS: MAX_TABLE}
LIMITS: Final = AGENT | {CARD: MAX_TEXT, FILM: 64 << 20}
_REPO = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_utils: Any = hf.utils  # mypy does not see what it exports


class _Client(httpx2.Client):
    """Asks once, and waits for a stated time; huggingface_hub would ask six times, and sometimes wait without end."""

    def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """An answer has at most `MAX_ANSWER` bytes, and comes whole within `WHOLE_ANSWER_S`, unless it is streamed."""
        request.extensions["timeout"] = httpx2.Timeout(ANSWER_S).as_dict()
        with _one_line(f"the hub ({request.url.host})"):
            answer = super().send(request, stream=True, **options)
            if not stream:
                answer = _whole(answer)
        if answer.status_code >= 500 or answer.status_code in (408, 429):
            raise HubError(
                f"the hub ({request.url.host}) answers with status {answer.status_code}; try again later"
            )
        return answer


def _whole(answer: httpx2.Response) -> httpx2.Response:
    """An answer with its content. Raises HubError as soon as it is too large or takes too long."""
    content = bytearray()
    end_s = time.monotonic() + WHOLE_ANSWER_S
    host = answer.request.url.host
    with closing(answer):
        for chunk in answer.iter_bytes():  # a size of chunks would wait until one is full
            content += chunk
            if len(content) > MAX_ANSWER:
                raise HubError(
                    f"the hub ({host}) sends an answer of more than {MAX_ANSWER:,} bytes; it is not read"
                )
            if time.monotonic() > end_s:
                raise HubError(
                    f"the hub ({host}) sends its answer for longer than {WHOLE_ANSWER_S:g} s; it is not read"
                )
    headers = [
        (name, value) for name, value in answer.headers.multi_items() if name.lower() not in _OF_THE_TRANSFER
    ]
    return httpx2.Response(
        answer.status_code,
        headers=headers,
        content=bytes(content),
        request=answer.request,
        history=answer.history,
    )


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turns what huggingface_hub raises of a repository, or of a hub, into one line."""
    try:
        yield
    except errors.GatedRepoError:
        raise ZooError(f"{what} is gated: ask for access on its page, and log in: hf auth login") from None
    except errors.RepositoryNotFoundError:
        hint = "check the name; if it is private, log in: hf auth login"
        raise ZooError(f"there is no repository {what} that you may read: {hint}") from None
    except errors.RevisionNotFoundError:
        raise ZooError(f"{what} has no such revision: name a branch, a tag or a commit") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        told = " ".join((error.server_message or "").split())[:200]
        if status in (401, 403):
            cure = ". The token does not allow this: hf auth login"
        else:
            cure = ""
        raise ZooError(f"the hub refuses {what} with status {status} {told}".rstrip() + cure) from error
    except httpx2.TimeoutException:
        raise HubError(f"{what} does not answer within {ANSWER_S:g} s; try again later") from None
    except httpx2.RequestError as error:
        raise HubError(f"{what} cannot be reached: {error}. Check the network, and HF_ENDPOINT") from None
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError, httpx2.InvalidURL) as error:
        if isinstance(error.__cause__, ZooError):  # of a thread that sends a large file
            raise error.__cause__ from None
        raise HubError(f"the hub's answer cannot be read: {type_and_message(error)[:200]}") from error


def _api() -> hf.HfApi:
    if hf.is_offline_mode():
        raise ZooError("HF_HUB_OFFLINE forbids to reach the hub: unset it")
    if not re.match(r"https?://[^/]", constants.ENDPOINT):
        raise ZooError(f"HF_ENDPOINT is no address: '{printable(constants.ENDPOINT)}'. Write https://HOST")
    _token()
    # Xet's own client waits without a limit.
    constants.HF_HUB_DISABLE_XET = constants.HF_HUB_DISABLE_TELEMETRY = True
    _utils.disable_progress_bars()
    hf.set_client_factory(lambda: _Client(follow_redirects=True))
    return hf.HfApi(library_name="a3c-zoo")


def _token() -> str | None:
    """The user's token, None if there is none. Raises ZooError if it cannot be read, or cannot be one."""
    try:
        token = hf.get_token()
    except OSError as error:
        raise ZooError(f"the token cannot be read: {error}. See HF_TOKEN and HF_TOKEN_PATH") from error
    if token and not token.isascii():
        raise ZooError("the token has characters that no token has: hf auth login, or HF_TOKEN")
    return token


def check_repo(repo: str, sends: bool) -> None:
    """Raises ZooError for a name that no repository can have, and if there is no token to send with."""
    try:
        _utils.validate_repo_id(repo if _REPO.fullmatch(repo) else "--")
    except errors.HFValidationError:
        text = "write OWNER/NAME, each of up to 96 letters, digits, '_', single '-' and '.'"
        text += ", with a letter or digit first, and no '-', '.' or '.git' at the end"
        raise ZooError(f"'{repo}' is no repository: {text}") from None
    if sends and not _token():
        raise ZooError(
            "push needs a token that may write: hf auth login, or HF_TOKEN=…; --dry-run DIR needs none"
        )


def write_folder(
    directory: Run,
    folder: Path,
    with_film: bool,
    checkpoint: str,
    on_step: Callable[[int], None] = lambda played: None,
) -> Run:
    """Writes the files of an agent into a new folder, and checks them as `pull` does. Raises ZooError.

    checkpoint: of a run, "final" or "best". A run plays `EPISODES` for its card. on_step: called after each step with
    the number of episodes played so far.

    An agent of the user's own, as `push --dry-run` writes it, keeps its card and, if that is wanted, its film. Without
    the film the card does not name it.
    """
    if os.path.lexists(directory.path / PARAMETERS):
        with disk_errors(folder, "make", "TMPDIR=DIR"):
            folder.mkdir()
        is_own = not os.path.lexists(directory.path / PULLED_JSON)
        names = (CARD, FILM) if with_film else (CARD,)
        kept = [name for name in names if is_own and os.path.lexists(directory.path / name)]
        for name in (*AGENT, *kept):
            try:
                content = read_bytes(directory.path / name, LIMITS[name])
            except OSError as error:
                raise ZooError(
                    f"{directory.path / name} cannot be sent: {error.strerror or error}"
                ) from error
            if name == CARD and not with_film:
                content = content.replace(film_told(FILM).encode(), b"")
            with disk_errors(folder / name, "write", "TMPDIR=DIR"):
                replace_file(folder / name, content)
    else:
        save_folder(directory, folder, checkpoint, EPISODES, "TMPDIR=DIR", on_step)
    try:
        registry = get_registry()
        directory.config(registry)
        registry.given_to_run(folder, directory.meta["env"])  # the copy plays where the run has played
        check_agent(made := Run(folder, directory.is_trusted, directory.doubt))
    except ZooError as error:  # the user knows the folder that was copied
        raise ZooError(str(error).replace(str(folder), str(directory.path))) from error
    return made


def write_card(directory: Run, repo: str, source: Run) -> None:
    """Writes README.md beside an agent and its film: its card, with the evaluation as the hub's own metadata."""
    meta, _, played = figures(directory)
    gym_id = get_registry().env(meta["env"], is_trusted=directory.is_trusted).gym_id or ""
    task = gym_id.rpartition(":")[2] or meta["env"].removeprefix("gym:")
    kind = "reinforcement-learning"
    metric = "mean_reward"
    value = f"{played.mean_return:.2f} +/- {played.std_return:.2f}"
    result = hf.EvalResult(kind, task, task, metric, value, task_name=kind, metric_name=metric)
    tags = [task, f"deep-{kind}", kind, "a3c-zoo", meta["agent"]]
    named = {"library_name": "a3c-zoo", "pipeline_tag": kind, "tags": tags, "model_name": meta["agent"]}
    film = FILM if (directory.path / FILM).exists() else None
    text = f"---\n{hf.ModelCardData(**named, eval_results=[result]).to_yaml()}\n---\n\n"
    entry = entry_of(get_registry(), source)
    points = curve(source.path / CURVE)
    is_pulled = os.path.lexists(source.path / PULLED_JSON)
    text += card_text(directory, entry, points, repo.partition("/")[2], repo, film, is_pulled)
    replace_file(directory.path / CARD, text.encode())


def push(folder: Path, repo: str, private: bool) -> str:
    """Sends a folder's files as one commit; makes the repository if it is not there. Returns its address.

    A film of another agent, which the repository has and the folder has not, goes in the same commit.
    """
    api = _api()
    with _one_line(repo):
        address = api.create_repo(repo, private=private, exist_ok=True)
        if private and not api.model_info(repo, expand=["private"]).private:
            raise ZooError(
                f"{repo} is there already, and public: leave out --private, or choose another name"
            )
        changes: list[Any] = [hf.CommitOperationAdd(path.name, path) for path in sorted(folder.iterdir())]
        if not (folder / FILM).exists() and FILM in _sizes(api, repo, [FILM]):
            changes.append(hf.CommitOperationDelete(FILM))
        api.create_commit(repo, changes, commit_message="Agent of a3c-zoo")
    return str(address)


def pull(repo: str, revision: str | None, path: Path, trust: bool = False) -> None:
    """Fetches an agent into a new folder, which is then whole and checked, or not there. trust: as in `load_agent`.

    Raises:
        ZooError: there is no such repository, or its files are not those of an agent. HubError: it cannot be reached.
    """
    if os.path.lexists(path):
        raise ZooError(f"{path} exists already; nothing is overwritten. Choose another name: --name NAME")
    with _one_line(repo):
        contents = _contents(_api(), repo, revision)
    with disk_errors(path.parent, "make"):
        path.parent.mkdir(parents=True, exist_ok=True)
        # It is not listed as a run: it has no meta.json itself.
        hidden = Path(tempfile.mkdtemp(prefix=".pull-", dir=path.parent))
    try:
        with disk_errors(path, "write"):
            (folder := hidden / path.name).mkdir()
            for name, content in contents.items():
                replace_file(folder / name, content)
        try:
            check_agent(Run(folder, trust, f"it was pulled from {repo}"))
        except ZooError as error:  # the folder is going to be removed: its path would tell nothing
            text = str(error)
            for told in (str(folder), str(shown(folder))):
                text = text.replace(f"{told}{os.sep}", "").replace(told, "it")
            raise ZooError(f"{repo} is refused: {text}") from error
        with disk_errors(path, "make"):
            folder.rename(path)  # it fails if a file or a folder with files is there by now
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _sizes(api: hf.HfApi, repo: str, names: list[str], commit: str | None = None) -> dict[str, int]:
    """Those of the named files that a repository has → their bytes."""
    listed = api.get_paths_info(repo, names, revision=commit)
    return {file.path: file.size for file in listed if file.path in names and isinstance(file, RepoFile)}


def _contents(api: hf.HfApi, repo: str, revision: str | None) -> dict[str, bytes]:
    """Name → the bytes of each file, and from where they come."""
    commit = str(api.model_info(repo, revision=revision, expand=["sha"]).sha)
    sizes = _sizes(api, repo, [*LIMITS], commit)
    if missing := AGENT.keys() - sizes.keys():
        raise ZooError(f"{repo} is no agent of a3c-zoo: it has no {min(missing)}")
    for name, size in sizes.items():
        if size > LIMITS[name]:
            raise ZooError(
                f"{repo}: {name} has {size:,} bytes, and more than {LIMITS[name]:,} are not fetched"
            )
    told = json.dumps({"repo": repo, "commit": commit, "endpoint": constants.ENDPOINT})
    return {name: _fetch(repo, name, commit, size) for name, size in sizes.items()} | {
        PULLED_JSON: told.encode()
    }


def _fetch(repo: str, name: str, commit: str, size: int) -> bytes:
    """A file of the announced size. Raises HubError as soon as it is larger or takes too long."""
    content = bytearray()
    headers = {**_utils.build_hf_headers(library_name="a3c-zoo"), "Accept-Encoding": "identity"}
    with hf.get_session().stream(
        "GET", hf.hf_hub_url(repo, name, revision=commit), headers=headers
    ) as answer:
        _utils.hf_raise_for_status(answer)
        end_s = time.monotonic() + FILE_S
        for chunk in answer.iter_bytes():
            content += chunk
            if len(content) > size or time.monotonic() > end_s:
                break
    if len(content) != size:
        raise HubError(
            f"{repo}: {name} has {size:,} bytes, says the hub; it sent {len(content):,}. Try again later"
        )
    return bytes(content)


def check_agent(directory: Run) -> None:
    """Reads an agent's folder as `play` does. Raises ZooError if it is damaged, or of other spaces than it says."""
    registry = get_registry()
    (meta, _, _) = figures(directory)
    setup = RunSetup.of(registry, directory.config(registry), serial=True)
    if (meta["env"], meta["agent"]) != (setup.config.env_name, setup.config.agent_name):
        raise ZooError(f"meta.json is of {meta['agent']} on {meta['env']}, and config.yml is not")
    no_model = f"agent '{setup.agent.name}' keeps no model as the zoo's own agents do"
    if setup.network is None:  # nor would it compare sizes with those of config.yml
        raise ZooError(no_model)
    policy, _ = load_from(directory)
    from a3c_zoo.learning.model import ModelPolicy, probe_spaces  # imports torch, as load_from does
    from a3c_zoo.learning.space_check import check_spaces

    spaces = probe_spaces(setup.entry, setup.network, setup.config, setup.agent.spaces)
    if not isinstance(policy, ModelPolicy):
        raise ZooError(no_model)
    check_spaces(policy.spaces, spaces, setup.entry.name)

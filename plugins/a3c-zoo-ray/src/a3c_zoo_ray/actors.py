"""A node as a Ray actor, the driver's side of it, and the question that both put to parameter servers."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import ray
from a3c_zoo.errors import WorkerError, ZooError, type_and_message
from ray.exceptions import RayError, RayTaskError

from a3c_zoo_ray.cluster import why_lost
from a3c_zoo_ray.exchange import Answer, Message
from a3c_zoo_ray.node import Node, NodePlan, NodeReport
from a3c_zoo_ray.owner import owned_folder

#: How long an exchange may take, in seconds.
EXCHANGE_LIMIT_S = 60.0
#: How long nodes have for a short call, or to end, in seconds.
CALL_LIMIT_S = 30.0


def ask(shards: Sequence[Any], messages: Sequence[Message]) -> list[Answer]:
    """Sends each shard its message; returns the answers.

    Raises:
        ConnectionError: a parameter server has ended, or does not answer.
    """
    refs = [shard.exchange.remote(message) for shard, message in zip(shards, messages, strict=True)]
    try:
        answers: list[Answer] = ray.get(refs, timeout=EXCHANGE_LIMIT_S)
    except RayError as error:
        raise ConnectionError(why_lost(error)) from error
    return answers


class NodeActor:
    """A node, as an actor. Only `cut` may be called beside another call."""

    def __init__(self, files: Any, plan: NodePlan, shards: Sequence[Any], folder: str) -> None:
        del files  # `MODULE_FILES` of the driver: what has unpickled it finds the modules of plugin files
        # Workers would import this process's main module, which is Ray's.
        vars(sys.modules["__main__"]).pop("__file__", None)
        if os.path.isdir(folder):
            os.chdir(folder)
        # Whether the actor is killed or its machine's Ray: it could not tidy up.
        self._stack = ExitStack()
        tempfile.tempdir = self._stack.enter_context(owned_folder("a3c-node-"))
        self._plan, self._shards = plan, shards
        self._node: Node

    def start(self) -> None:
        self._node = Node(self._plan, partial(ask, self._shards))
        self._node.start()

    def resume(self, left: int) -> None:
        self._node.resume(left)

    def poll(self) -> NodeReport:
        return self._node.poll()

    def park(self) -> NodeReport:
        return self._node.park()

    def cut(self) -> None:
        self._node.cut()

    def stop(self) -> NodeReport:
        return self._node.stop()


class Member:
    """The driver's side of one node.

    Attributes:
        plan: the node's. actor: the node.
        call: the outstanding call, None without one. method: its name. began_s: when it began.
        is_ready: whether its workers are ready. offset_s: what to add to its times; the
            smallest of all answers, because some are read late.
        parked: what it has told of the present standstill.
    """

    def __init__(self, plan: NodePlan, actor: Any) -> None:
        self.plan, self.actor = plan, actor
        self.call, self.method, self.began_s = None, "", 0.0
        self.is_ready, self.offset_s = False, math.inf
        self.parked: NodeReport | None = None

    call: Any

    def ask(self, method: str, *args: Any) -> None:
        """Begins a call."""
        self.call, self.method = getattr(self.actor, method).remote(*args), method
        self.began_s = time.monotonic()

    def is_late(self, patience_s: float) -> bool:
        """Whether the outstanding call lasts too long. `park` may: it ends with a rollout, which the node watches."""
        return self.call is not None and self.method != "park" and time.monotonic() - self.began_s > patience_s

    def answer(self) -> Any:
        """The answer to the outstanding call, which is there.

        Raises:
            LostError: the node has ended.
            ZooError: what the node raised.
        """
        call, self.call = self.call, None
        try:
            told = ray.get(call, timeout=CALL_LIMIT_S)
        except RayTaskError as error:
            if isinstance(error.cause, ZooError):
                raise error.cause from None
            raise WorkerError(f"node {self.plan.index} failed: {type_and_message(error.cause)}\n\n{error}") from None
        except RayError as error:
            raise LostError(f"was lost ({why_lost(error)})") from error
        if isinstance(told, NodeReport):
            self.offset_s = min(self.offset_s, time.monotonic() - told.now_s)
        return told


class LostError(Exception):
    """A node has ended."""

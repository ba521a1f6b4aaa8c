"""`World`: the ranks of one layout, alive, ready to run functions."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

from harness import _settings, _shipping
from harness._errors import WorldError
from harness._supervisor import Outcome, Supervisor
from harness.launch._forkserver import LaunchError, server_for
from harness.launch._spec import WorldSpec
from harness.layout import DEFAULT_ORDER, Layout
from harness.report import render
from harness.verdict import Finding

INSIDE = "PYTEST_COLLECTIVES_RANK"
"""Set in the environment of every rank, so that a rank (or its child) starts no world."""

LEAST_BUDGET = 0.5

_SCRUBBED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
_SCRUBBED_PREFIXES = ("TORCHELASTIC_", "ROLE_", "GLOO_", "TORCH_DISTRIBUTED_")


class World:
    """Real gloo ranks in a dp × cp × tp × pp grid, with a stub of Megatron's ``mpu`` in each.

    ::

        with World(dp=2, cp=2) as world:
            results = world.run(function, *args)    # function(rank, *args) on every rank

    ``timeout`` is the deadline of each run in seconds (default: the ``world_timeout`` option, 60);
    it counts from when all ranks are up.
    ``env`` adds to the ranks' environment; None as a value removes a variable. ``seed`` plus the
    rank seeds random, numpy and torch. ``threads`` is torch's thread count per rank. With
    ``hash_seed`` each rank has a ``PYTHONHASHSEED`` of its own, so that code which walks a set in
    rank-dependent order shows it (such ranks import torch anew: seconds, not milliseconds). With
    ``compile`` TorchDynamo is left on. ``stub_modules`` names further modules to provide as empty
    packages. ``shadow_megatron`` puts the stub in place of an installed Megatron. With
    ``record=False`` collectives are not recorded: only the ends of ranks are judged. A send may
    block until its receive is posted, as it does on NCCL; with ``buffered_sends`` it is judged as
    if it never did.

    Raises ValueError or TypeError for an impossible layout or option, before anything starts.
    """

    __module__ = "harness"

    def __init__(
        self,
        dp: int = 1,
        cp: int = 1,
        *,
        tp: int = 1,
        pp: int = 1,
        ep: int = 1,
        etp: int | None = None,
        order: str = DEFAULT_ORDER,
        timeout: float | None = None,
        env: Mapping[str, str | None] | None = None,
        seed: int | None = None,
        threads: int = 1,
        hash_seed: bool = False,
        compile: bool = False,
        stub_modules: tuple[str, ...] | None = None,
        shadow_megatron: bool = False,
        record: bool = True,
        buffered_sends: bool = False,
    ) -> None:
        self.layout = Layout(dp, cp, tp=tp, pp=pp, ep=ep, etp=etp, order=order)
        self.timeout = _checked_timeout(timeout)
        self._threads = _checked_count("threads", threads)
        self._env = dict(env or {})
        checked: dict[Any, Any] = dict(self._env)
        for name, value in checked.items():
            if not isinstance(name, str) or not isinstance(value, (str, type(None))):
                raise TypeError(
                    f"env: names and values are text (or None, to remove one), not "
                    f"{name!r}: {value!r}; write {name!r}: {str(value)!r}"
                )
        self._seed = seed
        self._hash_seed = hash_seed
        self._compile = compile
        self._stub_modules = stub_modules
        self._shadow_megatron = shadow_megatron
        self._record = record
        self._buffered_sends = buffered_sends
        self._supervisor: Supervisor | None = None
        self._ended = ""

    def __repr__(self) -> str:
        state = self._ended or ("alive" if self._supervisor else "not started")
        return f"<World of {self.world_size} ranks: {state}>"

    def __del__(self) -> None:
        if getattr(self, "_supervisor", None) is not None:
            import warnings

            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=1, source=self)
            self._stop()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a World cannot be sent into its own ranks: use the rank argument of the function "
            "(rank.world_size, rank.group('dp-cp')) instead of the world"
        )

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.layout.world_size

    @property
    def alive(self) -> bool:
        """Whether the ranks are up and another function can run on them."""
        return self._supervisor is not None and not self._ended

    def __enter__(self) -> World:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        if kind is None:
            self.close()
        else:
            self._stop()  # the error that is on its way says more

    def start(self) -> None:
        """Start the ranks if they are not up. Raises RuntimeError where that cannot be."""
        __tracebackhide__ = True
        if self._ended:
            raise RuntimeError(f"{self._ended}; start a new one")
        if self._supervisor is not None:
            return
        _refuse_where_it_cannot_work()
        settings = _settings.current
        server = server_for(settings.preload)
        try:
            launched = server.launch(self._spec(settings))
        except LaunchError as error:
            raise RuntimeError(str(error)) from error
        self._supervisor = Supervisor(launched, self.layout, self._buffered_sends)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Run ``function(rank, *args, **kwargs)`` on every rank; the results in rank order.

        ``rank`` is an int with ``.dp .cp .tp .pp .ep``, ``.world_size`` and ``.group("dp-cp")``.
        Closures, lambdas and local functions may be sent. Raises `WorldError` for every misuse of
        a collective, failing rank or passed deadline, and then the world is over; TypeError for
        what cannot be sent. ``pytest.skip`` and ``pytest.xfail`` on a rank do what they say.
        """
        __tracebackhide__ = True
        payload = _shipping.pack(function, args, kwargs, _settings.current.shipped())
        seconds, limit, note = self._budget()
        self.start()
        assert self._supervisor is not None
        try:
            outcome = self._supervisor.run(payload, seconds, limit)
        except queue.Empty:
            self._stop()
            raise RuntimeError(
                "the supervisor of the world did not answer: please report"
            ) from None
        except BaseException:
            self._stop()  # Ctrl-C: no rank stays behind
            raise
        return self._conclude(outcome, note)

    def close(self) -> None:
        """End the ranks. Raises `WorldError` if one has died since the last run."""
        __tracebackhide__ = True
        trouble = self._stop()
        if trouble:
            raise WorldError(f"{trouble}, though its function had returned")

    # -- within -----------------------------------------------------------------------------

    def _stop(self) -> str:
        if self._supervisor is None:
            return ""
        supervisor, self._supervisor = self._supervisor, None
        self._ended = self._ended or "this world has been closed"
        return supervisor.close()

    def _conclude(self, outcome: Outcome, note: str) -> list[Any]:
        __tracebackhide__ = True
        settings = _settings.current
        if settings.on_output is not None:
            settings.on_output(outcome)
        if outcome.trouble:
            self._stop()
            self._ended = "this world could not be started"
            said = server_for(settings.preload).last_words()
            raise RuntimeError(f"{outcome.trouble}. {said}{_printed(outcome)}".rstrip())
        errors = [finding for finding in outcome.findings if finding.level == "error"]
        if errors:
            self._stop()
            self._ended = f"this world ended with: {errors[0].summary}"
            text = render(outcome.findings)
            if note and errors[0].kind == "straggler":
                text += f"\n{note}"
            if settings.on_output is None:
                text += _printed(outcome)
            raise WorldError(
                text,
                outcome.findings,
                exceptions=_exceptions(outcome),
                stacks=outcome.stacks,
                output=outcome.output,
                seconds_to_verdict=outcome.to_verdict,
            )
        _warn(outcome)
        _apply_outcomes(outcome)
        return [_result(rank, data) for rank, data in enumerate(outcome.results)]

    def _budget(self) -> tuple[float, float, str]:
        """The seconds a run may take, when it must have ended, and why it may be cut short."""
        asked = self.timeout if self.timeout is not None else _settings.current.timeout
        bound = _settings.current.bound()
        if bound is None:
            return asked, float("inf"), ""
        left, whole = bound
        margin = max(0.5, min(5.0, 0.1 * whole))
        seconds = left - margin
        limit = time.monotonic() + seconds
        if asked <= seconds:
            return asked, limit, ""
        if seconds < LEAST_BUDGET:
            raise RuntimeError(
                f"pytest-timeout ({whole:g} s) leaves this test {max(left, 0):.1f} s, too little "
                f"for a world, which must end {margin:g} s before it to say what happened: "
                "raise the timeout of this test"
            )
        return (
            seconds,
            limit,
            (
                f"note: the world's deadline of {asked:g} s was cut to {seconds:.1f} s, to end before "
                f"the pytest-timeout of this test ({whole:g} s)"
            ),
        )

    def _spec(self, settings: _settings.Settings) -> WorldSpec:
        timeout = self._budget()[0]
        stubs = settings.stub_modules if self._stub_modules is None else self._stub_modules
        return WorldSpec(
            layout=self.layout,
            timeout=max(timeout, 1.0),
            env=self._environment(settings),
            path=tuple(sys.path),
            cwd=os.getcwd(),
            seed=settings.seed if self._seed is None else self._seed,
            threads=self._threads,
            hash_seed=self._hash_seed,
            record=self._record,
            shadow_megatron=self._shadow_megatron,
            stub_modules=stubs,
            log_level=settings.log_level,
            verbosity=settings.verbosity,
        )

    def _environment(self, settings: _settings.Settings) -> dict[str, str]:
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in _SCRUBBED and not name.startswith(_SCRUBBED_PREFIXES)
        }
        env.update(
            GLOO_SOCKET_IFNAME="lo0" if sys.platform == "darwin" else "lo",
            OMP_NUM_THREADS=str(self._threads),
            MKL_NUM_THREADS=str(self._threads),
        )
        if not self._compile:
            env["TORCHDYNAMO_DISABLE"] = "1"
        for name, value in {**settings.env, **self._env}.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        env[INSIDE] = "1"
        return env


def _refuse_where_it_cannot_work() -> None:
    if INSIDE in os.environ:
        raise RuntimeError(
            "a world cannot be started inside a rank of a world: start it from the test, and use "
            "the process groups of the rank (rank.group('dp'), mpu.get_data_parallel_group())"
        )
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise RuntimeError(
            "this process was started by torchrun, and a world starts ranks of its own: run "
            "pytest directly, without torchrun (or unset TORCHELASTIC_RUN_ID if it is a leftover)"
        )
    if sys.platform not in ("linux", "darwin"):
        raise RuntimeError(
            f"worlds need os.fork and descriptors that cross sockets, which {sys.platform} lacks: "
            "run these tests on Linux or macOS"
        )


def _checked_timeout(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout: seconds as a number, not {timeout!r}")
    if not 0 < timeout < float("inf"):
        raise ValueError(f"timeout: a number of seconds above 0, not {timeout!r}; say timeout=30")
    return float(timeout)


def _checked_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{name}: at least 1, not {value!r}")
    return value


def _exceptions(outcome: Outcome) -> dict[int, BaseException]:
    found: dict[int, BaseException] = {}
    for rank, (data, ended) in enumerate(zip(outcome.results, outcome.ended, strict=True)):
        if data and ended is not None and ended.how in ("raised", "failed"):
            try:
                error = _shipping.unpack(data)
            except Exception:
                continue  # its text is in the report all the same
            if isinstance(error, BaseException):
                found[rank] = error
    return found


def _result(rank: int, data: bytes) -> Any:
    try:
        return _shipping.unpack(data)
    except Exception as error:
        raise TypeError(
            f"the result of rank {rank} cannot be read in the pytest process: "
            f"{type(error).__name__}: {error}. Return plain values or tensors."
        ) from error


def _apply_outcomes(outcome: Outcome) -> None:
    """A skip or xfail on a rank is the test's, as no rank waits for that one."""
    __tracebackhide__ = True
    for how in ("skipped", "xfailed"):
        said = {e.rank: e.message for e in outcome.ended if e is not None and e.how == how}
        if said:
            import pytest

            ranks = "" if len(said) == len(outcome.ended) else f"rank {min(said)}: "
            message = ranks + next(iter(said.values()))
            if how == "skipped":
                pytest.skip(message)
            pytest.xfail(message)


def _warn(outcome: Outcome) -> None:
    import warnings

    for finding in outcome.findings:
        warnings.warn(WorldWarning(render([finding]), [finding]), stacklevel=4)
    for note in outcome.notes:
        warnings.warn(WorldWarning(note), stacklevel=4)


class WorldWarning(UserWarning):
    """A suspicion that could not be proved, or something that the recorder cannot see.

    ``findings`` are the suspicion as data.
    """

    __module__ = "harness"

    def __init__(self, text: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(text)
        self.findings = tuple(findings)


def _printed(outcome: Outcome) -> str:
    """What the ranks printed, for where no pytest shows it in sections of its own."""
    parts = []
    for rank, streams in enumerate(outcome.output):
        for name, text in streams.items():
            if text.strip():
                parts.append(f"\n--- {name} of rank {rank} ---\n{text[-2000:].rstrip()}")
    return "".join(parts)

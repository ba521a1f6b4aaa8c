"""`World`: the ranks of one layout, alive, ready to run functions."""

from __future__ import annotations

import functools
import os
import queue
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from harness import _coverage, _environment, _settings, _shipping
from harness._debugging import GROUP_TIMEOUT
from harness._errors import WorldError
from harness._pool import leftovers
from harness._supervisor import Outcome, Supervisor
from harness.launch._forkserver import LaunchError, server_for
from harness.launch._rank import CURRENT_TEST
from harness.launch._spec import WorldSpec
from harness.layout import DEFAULT_ORDER, Layout
from harness.report import WIDTH_IN_PYTEST, Run, render
from harness.verdict import Finding

if TYPE_CHECKING:
    from harness._budget import Lease
    from harness.explain import Explanation

LEAST_BUDGET = 0.5

MOST_AGAIN = 32
MOST_BYTES_AGAIN = 16 << 20
"""A second run repeats so many functions at most, of so many bytes together, arguments included."""


class World:
    """Real gloo ranks in a dp × cp × tp × pp grid, with a stub of Megatron's ``mpu`` in each.

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
    if it never did. ``reuse=False`` gives this world ranks of its own, and ends them with it, where
    the option ``world_reuse`` keeps worlds up from one test to the next. ``explain`` says when a
    second, traced run looks for the line at which ranks took different ways: ``"auto"``,
    ``"always"``, ``"never"`` (default: the option ``world_explain``).

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
        reuse: bool = True,
        explain: str | None = None,
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
        self._pool = _settings.current.pool if reuse else None
        self._watched = self._pool is not None
        self._shared = False
        self._afresh = False
        self._left: tuple[tuple[str, ...], ...] = ()
        if explain is not None and explain not in _settings.EXPLAIN:
            raise ValueError(f"explain: one of {', '.join(_settings.EXPLAIN)}, not {explain!r}")
        self._explain = explain
        self._earlier: list[bytes] = []
        self._supervisor: Supervisor | None = None
        self._lease: Lease | None = None
        self._key: tuple[WorldSpec, bool] | None = None
        self._connected_for = 0.0
        self._ended = ""
        self._function = ""

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
        elif issubclass(kind, Exception):
            self._leave()  # the error that is on its way says more
        else:
            self._stop()

    def start(self) -> None:
        """Start the ranks if they are not up. Raises RuntimeError where that cannot be."""
        __tracebackhide__ = True
        if self._ended:
            raise RuntimeError(f"{self._ended}; start a new one")
        if self._supervisor is not None:
            return
        _environment.refuse_where_ranks_cannot_start()
        self._check_debugged()
        self._reserve()
        try:
            settings = _settings.current
            timeout = self._deadline()[0] if settings.console is None else GROUP_TIMEOUT
            spec = self._spec(settings, timeout)
            self._supervisor = self._taken(spec) or self._launched(spec)
        finally:
            if self._supervisor is None:
                self._release()

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Run ``function(rank, *args, **kwargs)`` on every rank; the results in rank order.

        ``rank`` is an int with ``.dp .cp .tp .pp .ep``, ``.world_size`` and ``.group("dp-cp")``.
        Closures, lambdas and local functions may be sent. Raises `WorldError` for every misuse of
        a collective, failing rank or passed deadline, and then the world is over; TypeError for
        what cannot be sent. ``pytest.skip`` and ``pytest.xfail`` on a rank do what they say.
        """
        __tracebackhide__ = True
        payload = _shipping.pack(function, args, kwargs, _settings.current.shipped())
        self._function = _name_of(function)
        self._remember(payload)
        self.start()
        self._reserve()
        try:
            return self._run(payload)
        finally:
            if self._shared:
                self._release()  # it stays up for tests to come, but waits without use

    def close(self) -> None:
        """End the ranks, or keep them up for the next world. Raises `WorldError` if one has died."""
        __tracebackhide__ = True
        trouble = self._leave()
        if trouble:
            raise WorldError(f"{trouble}, though its function had returned")

    # -- within -----------------------------------------------------------------------------

    def _taken(self, spec: WorldSpec) -> Supervisor | None:
        """The ranks of a world that is no longer used, if there is one like this."""
        self._connected_for = spec.timeout
        self._key = replace(spec, timeout=0.0), self._buffered_sends
        taken = None if self._pool is None else self._pool.take(self._key, spec.timeout)
        self._afresh = taken is not None
        return taken

    def _launched(self, spec: WorldSpec) -> Supervisor:
        """New ranks."""
        __tracebackhide__ = True
        try:
            launched = server_for(_settings.current.preload).launch(spec)
        except LaunchError as error:
            raise RuntimeError(str(error)) from error
        return Supervisor(launched, self.layout, self._buffered_sends)

    def _run(self, payload: bytes) -> list[Any]:
        __tracebackhide__ = True
        seconds, limit, note = self._deadline()
        assert self._supervisor is not None
        afresh, self._afresh = self._afresh, False
        try:
            outcome = self._supervisor.run(
                payload,
                seconds,
                limit,
                test=os.environ.get(CURRENT_TEST, ""),
                afresh=afresh,
                watched=self._watched,
                kept=_settings.current.records_kept,
                always=_settings.current.on_run is not None,
                measure=_coverage.wanted(),
                console=_settings.current.console,
            )
        except queue.Empty:
            self._stop()
            raise RuntimeError(
                "the supervisor of the world did not answer: please report"
            ) from None
        except BaseException:
            self._stop()  # Ctrl-C: no rank stays behind
            raise
        if outcome.measured:
            self._keep_measured(outcome.measured)
        return self._conclude(outcome, note)

    def _keep_measured(self, measured: tuple[tuple[Any, ...], ...]) -> None:
        keep = _settings.current.on_measured
        if keep is not None:
            keep(measured)
            return
        here = _coverage.Gathered()
        here.add(measured)
        here.merge()

    def _check_debugged(self) -> None:
        console = _settings.current.console
        if console is not None and console.rank >= self.world_size:
            raise RuntimeError(
                f"--world-pdb={console.rank}: this world has {self.world_size} ranks, 0 to "
                f"{self.world_size - 1}; give one of them, or select the test to debug with -k"
            )

    def _stop(self) -> str:
        """End the ranks; returns which of them had died since the last run."""
        supervisor = self._forsake()
        try:
            return "" if supervisor is None else supervisor.close()
        finally:
            self._release()

    def _leave(self) -> str:
        """Hand the ranks on if nothing was left in them, else end them."""
        pool = self._pool
        if pool is None or self._supervisor is None or not self._supervisor.sound:
            return self._stop()
        if self._dirt:
            self._tell_dirt()
            return self._stop()
        supervisor = self._forsake()
        assert supervisor is not None
        pool.give(self._key, self._connected_for, supervisor)
        self._release()
        return ""

    def _share(self) -> None:
        """Expect several tests to run functions: each says what it leaves behind."""
        self._pool, self._watched, self._shared = None, True, True

    def _renew(self) -> None:
        """Another test begins: the next function finds the ranks seeded as at their start."""
        self._afresh = True
        self._earlier.clear()

    @property
    def _dirt(self) -> str:
        """What functions have left in the ranks, where that is watched; empty where it is not."""
        return leftovers(self._left)

    def _tell_dirt(self) -> None:
        tell = _settings.current.on_dirty
        if tell is not None:
            axes = {name: getattr(self.layout, name) for name in ("dp", "cp", "tp", "pp", "ep")}
            given = ", ".join(f"{n}={v}" for n, v in axes.items() if v > 1 or n in ("dp", "cp"))
            tell(f"world({given}): {self._dirt}")

    def _forsake(self) -> Supervisor | None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            self._ended = self._ended or "this world has been closed"
        return supervisor

    def _reserve(self) -> None:
        budget = _settings.current.budget
        if budget is not None and self._lease is None:
            self._lease = budget.acquire(self.world_size, self._patience())

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _patience(self) -> float:
        """Seconds that this test can wait for other processes to end their worlds."""
        bound = _settings.current.bound()
        return float("inf") if bound is None else max(0.0, bound[0] / 2)

    def _conclude(self, outcome: Outcome, note: str) -> list[Any]:
        __tracebackhide__ = True
        settings = _settings.current
        self._left = outcome.left
        if settings.on_output is not None:
            settings.on_output(outcome)
        if outcome.trouble:
            self._stop()
            self._ended = "this world could not be started"
            said = server_for(settings.preload).last_words()
            raise RuntimeError(f"{outcome.trouble}. {said}{_printed(outcome)}".rstrip())
        errors = [finding for finding in outcome.findings if finding.level == "error"]
        run = self._told(outcome)
        if errors:
            lease, self._lease = self._lease, None  # the second run takes the place of the first
            try:
                self._stop()
                run = replace(run, explanation=self._explanation(run))
            finally:
                self._lease = lease
                self._release()
        if settings.on_run is not None:
            settings.on_run(run)
        if errors:
            self._ended = f"this world ended with: {errors[0].summary}"
            text = render(run, width=WIDTH_IN_PYTEST, verbosity=max(0, settings.detail))
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
                run=run,
            )
        _warn(outcome, run, settings.detail)
        _apply_outcomes(outcome)
        return [_result(rank, data) for rank, data in enumerate(outcome.results)]

    def _remember(self, payload: bytes) -> None:
        """Keep what has run, for a second run has to do all of it again."""
        self._earlier.append(payload)
        if len(self._earlier) > MOST_AGAIN or sum(map(len, self._earlier)) > MOST_BYTES_AGAIN:
            del self._earlier[:-1]

    def _explanation(self, run: Run) -> Explanation | None:
        """Where the ranks took different ways, from a second run; None where none is made."""
        settings = _settings.current
        mode = self._explain or settings.explain
        if mode == "never" or not self._record or settings.console is not None:
            return None  # a second run would open the debugger again
        from harness._rerun import Again, explained, failed

        bound = settings.bound()
        try:
            again = Again(
                self._spec(settings, run.ended - run.began),  # its bound is what is left
                settings.preload,
                self._earlier,
                self._buffered_sends,
                os.environ.get(CURRENT_TEST, ""),
                run.ended - run.began,
                float("inf") if bound is None else bound[0] - margin_of(bound[1]),
            )
            return explained(run, again, mode)
        except Exception as error:
            return failed(
                error
            )  # the verdict on the first run stands, whatever becomes of this one

    def _told(self, outcome: Outcome) -> Run:
        """The run as reports read it."""
        axes = ("dp", "cp", "tp", "pp", "ep")
        return Run(
            findings=tuple(outcome.findings),
            world_size=self.world_size,
            layout={name: getattr(self.layout, name) for name in axes},
            records=outcome.records,
            left_out=outcome.left_out,
            began=outcome.began,
            ended=outcome.ended_at,
            test=os.environ.get(CURRENT_TEST, "").rpartition(" ")[0],
            function=self._function,
            output=tuple(outcome.output),
        )

    def _deadline(self) -> tuple[float, float, str]:
        """The seconds a run may take, when it must have ended, and why it may be cut short."""
        asked = self.timeout if self.timeout is not None else _settings.current.timeout
        bound = _settings.current.bound()
        if bound is None:
            return asked, float("inf"), ""
        left, whole = bound
        margin = margin_of(whole)
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

    def _spec(self, settings: _settings.Settings, timeout: float) -> WorldSpec:
        stubs = settings.stub_modules if self._stub_modules is None else self._stub_modules
        return WorldSpec(
            layout=self.layout,
            timeout=max(timeout, 1.0),
            env=_environment.of_ranks(settings, self._env, self._threads, self._compile),
            path=tuple(sys.path),
            cwd=os.getcwd(),
            seed=settings.seed if self._seed is None else self._seed,
            threads=self._threads,
            hash_seed=self._hash_seed,
            record=self._record,
            shadow_megatron=self._shadow_megatron,
            stub_modules=stubs,
            log_level=settings.log_level,
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            verbosity=settings.verbosity,
            debug_rank=None if settings.console is None else settings.console.rank,
        )


def margin_of(whole: float) -> float:
    """The seconds before its pytest-timeout in which a test must be over, to say what happened."""
    return max(0.5, min(5.0, 0.1 * whole))


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


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", type(function).__name__)


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


def _warn(outcome: Outcome, run: Run, detail: int) -> None:
    __tracebackhide__ = True
    import warnings

    for finding in outcome.findings:
        alone = replace(run, findings=(finding,), explanation=None)
        text = render(alone, width=WIDTH_IN_PYTEST, verbosity=detail)
        warnings.warn(WorldWarning(text, [finding]), stacklevel=5)
    for note in outcome.notes:
        warnings.warn(WorldWarning(note), stacklevel=5)


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

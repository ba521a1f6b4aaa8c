"""`World`: the ranks of one layout, alive, ready to run functions."""

from __future__ import annotations

import functools
import os
import queue
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from harness import (
    _conclusion,
    _coverage,
    _deadline,
    _debugging,
    _environment,
    _settings,
    _shipping,
)
from harness._asked import Asked
from harness._errors import WorldError
from harness._explaining import Explaining
from harness._pool import leftovers
from harness.launch._forkserver import LaunchError, server_for
from harness.launch._rank import CURRENT_TEST
from harness.launch._spec import WorldSpec
from harness.layout import DEFAULT_ORDER, Layout
from harness.supervisor._outcome import Outcome
from harness.supervisor._supervisor import Supervisor

if TYPE_CHECKING:
    from harness._budget import Lease


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
        self.timeout = _deadline.checked(timeout)
        self._asked = Asked(
            layout=self.layout,
            threads=threads,
            env=dict(env or {}),
            seed=seed,
            hash_seed=hash_seed,
            compile=compile,
            stub_modules=stub_modules,
            shadow_megatron=shadow_megatron,
            record=record,
        )
        self._explaining = Explaining(explain, recorded=record)
        self._buffered_sends = buffered_sends
        self._pool = _settings.current.pool if reuse else None
        self._watched = self._pool is not None
        self._shared = False
        self._afresh = False
        self._left: tuple[tuple[str, ...], ...] = ()
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
        _debugging.check(_settings.current.console, self.world_size)
        self._reserve()
        try:
            debugged = _settings.current.console is not None
            spec = self._asked.spec(
                _debugging.GROUP_TIMEOUT if debugged else _deadline.of_run(self.timeout)[0]
            )
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
        self._explaining.remember(payload)
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
        seconds, limit, note = _deadline.of_run(self.timeout)
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
            _coverage.keep(outcome.measured)
        return self._conclude(outcome, note)

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
        self._explaining.forget()

    @property
    def _dirt(self) -> str:
        """What functions have left in the ranks, where that is watched; empty where it is not."""
        return leftovers(self._left)

    def _tell_dirt(self) -> None:
        tell = _settings.current.on_dirty
        if tell is not None:
            sizes = _conclusion.sizes(self.layout).items()
            given = ", ".join(f"{n}={v}" for n, v in sizes if v > 1 or n in ("dp", "cp"))
            tell(f"world({given}): {self._dirt}")

    def _forsake(self) -> Supervisor | None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            self._ended = self._ended or "this world has been closed"
        return supervisor

    def _reserve(self) -> None:
        budget = _settings.current.budget
        if budget is not None and self._lease is None:
            self._lease = budget.acquire(self.world_size, _deadline.patience())

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

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
            raise RuntimeError(f"{outcome.trouble}. {said}{_conclusion.printed(outcome)}".rstrip())
        errors = outcome.errors
        run = _conclusion.run_of(outcome, self.layout, self._function)
        if errors:
            lease, self._lease = self._lease, None  # the second run takes the place of the first
            try:
                self._stop()
                made = self._explaining.explanation(run, self._asked.spec, self._buffered_sends)
                run = replace(run, explanation=made)
            finally:
                self._lease = lease
                self._release()
        if settings.on_run is not None:
            settings.on_run(run)
        if errors:
            self._ended = f"this world ended with: {errors[0].summary}"
            raise _conclusion.error_of(outcome, run, note)
        _conclusion.warn(outcome, run)
        _conclusion.apply_outcomes(outcome)
        return _conclusion.results(outcome)


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", type(function).__name__)

# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the library works: KeyboardInterrupt soon, and everything is usable afterwards. Each test is a process
of its own, which sends itself the signal."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

HEAD = """
import os, signal, sys, threading, time
sys.path[:0] = {path!r}
import fluxion as fx
from fluxion import xp
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts jobs in the background without it

def after(seconds, count=1):
    def send():
        for _ in range(count):
            time.sleep(seconds)
            os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send, daemon=True).start()

def interrupted(work, seconds=0.3):
    after(seconds)
    start = time.perf_counter()
    try:
        work()
    except KeyboardInterrupt:
        late = time.perf_counter() - start - seconds
        assert late < 1, late  # 50 ms on a machine that is idle
        return late
    raise AssertionError("not interrupted")

def long_loop(n):
    return fx.jit(lambda x: fx.fori_loop(0, n, lambda i, c: xp.sin(c) + 1, x))
"""


def run(body):
    import fluxion
    path = [os.path.dirname(os.path.dirname(fluxion.__file__))]
    text = HEAD.format(path=path) + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_run_is_interrupted_and_runs_again():
    run("""
        f, g, x = long_loop(10**9), long_loop(10), xp.ones(1000)
        f_short = g(x)
        interrupted(lambda: f(x))
        interrupted(lambda: f(x))
        assert (g(x) == f_short).tolist() == [True] * 1000
    """)


def test_a_training_step_is_interrupted_and_changes_nothing():
    run("""
        def loss(p, n):
            return fx.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, xp.sin(c[1])), (0, p["w"]))[1].sum() * 0 + \\
                ((p["w"] - 1) ** 2).sum()
        t = fx.Trainer(loss, {"w": xp.zeros(3)}, "sgd", rate=0.1, unguarded=True, missing_zero=True)
        t.step(fx.array(3))
        before = t.params["w"].tolist()
        interrupted(lambda: t.step(fx.array(2**31 - 1)))
        assert t.params["w"].tolist() == before
        t.step(fx.array(3))
    """)


def test_a_handler_that_returns_lets_the_work_continue():
    run("""
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        f, x = long_loop(3 * 10**5), xp.ones(8)
        want = f(x)
        after(0.05)
        start = time.perf_counter()
        while not seen:
            got = f(x)
            assert time.perf_counter() - start < 60
        assert got.tolist() == want.tolist()
    """)


def test_a_signal_between_calls_does_not_end_the_next_one():
    run("""
        f, x = long_loop(10), xp.ones(8)
        want = f(x).tolist()
        for _ in range(20):
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            except KeyboardInterrupt:
                pass
            assert f(x).tolist() == want
    """)


def test_a_signal_that_python_has_not_seen_ends_the_next_call():
    run("""
        import ctypes
        from functools import partial
        f, x = long_loop(10**9), xp.ones(1000)
        interrupted(lambda: f(x))
        kill = partial(ctypes.CDLL(None).kill, os.getpid(), signal.SIGINT)
        start = time.perf_counter()
        try:
            tuple(map(partial.__call__, (kill, partial(f, x))))  # no bytecode, which would raise, between the two
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            assert time.perf_counter() - start < 20
    """)


def test_a_signal_during_the_log_is_not_lost():
    run("""
        def log(*args):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        fx._core.set_log(log)
        f = long_loop(10**9)
        start = time.perf_counter()
        try:
            f(xp.ones(1000))
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            assert time.perf_counter() - start < 20
    """)


def test_other_threads_continue():
    run("""
        f, x, got = long_loop(2 * 10**6), xp.ones(8), []
        want = long_loop(2 * 10**6)(x).tolist()
        thread = threading.Thread(target=lambda: got.append(f(x).tolist()))
        thread.start()
        after(0.1)
        end, seen = time.perf_counter() + 60, 0
        while (not got or not seen) and time.perf_counter() < end:
            try:
                time.sleep(0.01)
            except KeyboardInterrupt:
                seen += 1
        assert seen == 1 and got == [want], (seen, got)
    """)


def test_an_ignored_signal_stays_ignored():
    run("""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        f, x = long_loop(3 * 10**5), xp.ones(8)
        after(0.01, 5)
        f(x)
        os.kill(os.getpid(), signal.SIGINT)
    """)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_a_compilation_is_interrupted():
    run("""
        def deep(x):
            for i in range(400):
                x = xp.tanh(x @ xp.ones((7, 7)) * (i + 1.5)) + xp.exp(x).sum(axis=0)
            return x.sum()
        os.environ["FLX_CACHE"] = "off"
        after(0.5)
        try:
            while True:
                fx.jit(fx.hessian(deep))(fx.random.normal(fx.random.key(int(time.time())), (7, 7)))
        except KeyboardInterrupt:
            pass
        assert fx.jit(lambda x: x + 1)(1.0).item() == 2
    """)

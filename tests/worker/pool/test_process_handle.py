"""One process, seen from the main process, with a fork server that forks only when asked to."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import zmq
from backedge.worker.pool import messages
from backedge.worker.pool.process_handle import ProcessHandle

NUMBER = 4


class ForkServer:
    """Notes which processes are wanted."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.wanted = {}

    def fork(self, number, on_forked):
        self.wanted[number] = on_forked

    def cancel(self, number):
        self.wanted.pop(number, None)


class Peer:
    """The process's end of the socket."""

    def __init__(self, folder):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PAIR)
        self.socket.connect(f"ipc://{messages.socket_path(folder, NUMBER)}")

    def answer(self, *answers):
        self.socket.send(messages.encode(list(answers)))

    def receive(self):
        assert self.socket.poll(1000)
        return messages.decode_requests(self.socket.recv())

    def close(self):
        self.context.destroy(linger=0)


def start_child():
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def run(test, folder):
    """Run `test(handle, fork_server, peer, answers, deaths)`."""

    async def check():
        fork_server: Any = ForkServer(folder)
        answers: asyncio.Queue[Any] = asyncio.Queue()
        deaths: asyncio.Queue[ProcessHandle] = asyncio.Queue()
        handle = ProcessHandle(
            fork_server, NUMBER, lambda _, answer: answers.put_nowait(answer), deaths.put_nowait
        )
        peer = Peer(folder)
        try:
            await test(handle, fork_server, peer, answers, deaths)
        finally:
            handle.stop()
            peer.close()
        assert list(folder.iterdir()) == []
        assert fork_server.wanted == {}

    asyncio.run(check())


@pytest.mark.parametrize("pid_first", [False, True])
def test_requests_wait_for_the_process_and_its_pid_and_travel_together(pid_first, tmp_path):
    async def test(handle, fork_server, peer, answers, deaths):
        child = start_child()
        handle.send(messages.Flush(1))
        handle.send(messages.Close(1))
        steps = [
            lambda: peer.answer(messages.Ready()),
            lambda: fork_server.wanted.pop(NUMBER)(child.pid),
        ]
        for step in reversed(steps) if pid_first else steps:
            assert not handle.ready
            assert not peer.socket.poll(0)
            step()
            await asyncio.sleep(0.05)
        await asyncio.wait_for(handle.started, 1)
        assert handle.pid == child.pid
        assert peer.receive() == [messages.Flush(1), messages.Close(1)]
        for key in (2, 3):
            handle.send(messages.Flush(key))
        await asyncio.sleep(0)
        assert peer.receive() == [messages.Flush(2), messages.Flush(3)]
        child.communicate(b"\n")

    run(test, tmp_path)


def test_answers_are_passed_on_in_order(tmp_path):
    async def test(handle, fork_server, peer, answers, deaths):
        told = [messages.Progress(1, number) for number in range(3)]
        peer.answer(messages.Ready(), told[0])
        peer.answer(*told[1:])
        async with asyncio.timeout(1):
            assert [await answers.get() for _ in told] == told

    run(test, tmp_path)


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_death_is_noticed(is_gone, tmp_path):
    async def test(handle, fork_server, peer, answers, deaths):
        child = start_child()
        if is_gone:
            child.communicate(b"\n")
        fork_server.wanted.pop(NUMBER)(child.pid)
        assert handle.pid == child.pid
        if not is_gone:
            await asyncio.sleep(0.05)
            assert deaths.empty()
            os.kill(child.pid, 9)
        async with asyncio.timeout(1):
            assert await deaths.get() is handle
        child.communicate()

    run(test, tmp_path)


def test_stop_kills_the_process(tmp_path):
    async def test(handle, fork_server, peer, answers, deaths):
        child = start_child()
        fork_server.wanted.pop(NUMBER)(child.pid)
        handle.stop()
        assert child.wait(5) == -9
        child.communicate()
        await asyncio.sleep(0.05)
        assert deaths.empty()

    run(test, tmp_path)


def test_looks_that_find_the_process_stopped_are_counted_in_a_row(tmp_path):
    async def test(handle, fork_server, peer, answers, deaths):
        assert handle.count_stopped() == 0, "it is not forked yet"
        child = start_child()
        fork_server.wanted.pop(NUMBER)(child.pid)
        found = [handle.count_stopped()]
        for number, expected in ((signal.SIGSTOP, 2), (signal.SIGCONT, 0)):
            os.kill(child.pid, number)
            async with asyncio.timeout(10):
                while (looks := handle.count_stopped()) != expected:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
            found.append(looks)
        assert found == [0, 2, 0]
        child.communicate()

    run(test, tmp_path)

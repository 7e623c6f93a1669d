"""The gateway's share of a call: direct, through nginx and through the gateway, in one run (SPEC §16).

    .venv/bin/python benchmarks/gateway.py [--nginx PATH] [--rounds 6] [--only paced,bulk,...]

Upstream and load are node programs (benchmarks/gateway_peers/), so that neither shares the gateway's
interpreter; node 20 must be on the PATH. nginx stands for the proxy that users would put there, one worker,
buffering off: Debian's package `nginx-light` (`apt-get install nginx-light`), or, without installing it,

    apt-get download nginx nginx-common && for deb in nginx*.deb; do dpkg -x "$deb" unpacked; done
    .venv/bin/python benchmarks/gateway.py --nginx unpacked/usr/sbin/nginx

Without nginx its column stays empty. The three ways take turns, so that a busy machine is busy for each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clinebox.adapters.gateway import Gateway, Upstream, serve_gateway

PEERS = Path(__file__).with_name("gateway_peers")
SESSIONS = 1_000
NGINX_CONF = """
daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 512; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location /v1/ {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer sk-benchmark";
      proxy_buffering off; proxy_request_buffering off; client_max_body_size 64m; tcp_nodelay on;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Way:
    """One way to the upstream."""

    name: str
    urls: list[str]
    pid: int | None
    """Whose memory and processor time are read; None for the direct way."""


def main() -> None:
    """Measure and print."""
    options = _options()
    if options.serve is not None:
        asyncio.run(_serve(options.serve))
        return
    with ExitStack() as stack:
        port = stack.enter_context(_upstream())
        ways = [Way("direct", [f"http://127.0.0.1:{port}/v1"], None)]
        nginx = options.nginx or shutil.which("nginx")
        if nginx is not None:
            ways.append(stack.enter_context(_nginx(nginx, port)))
        ways.append(stack.enter_context(_gateway(port)))
        load = os.getloadavg()[0]
        print(f"load {load:.1f} on {os.cpu_count()} cores; ways: {', '.join(way.name for way in ways)}")
        for name in options.only.split(","):
            {"paced": _paced, "mixed": _mixed, "bulk": _bulk, "burst": _burst, "memory": _memory}[name](
                ways, options
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nginx", help="the nginx program, where it is not on the PATH")
    parser.add_argument("--rounds", type=int, default=6, help="turns that each way takes")
    parser.add_argument("--only", default="memory,paced,mixed,bulk,burst")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser.parse_args()


# what is measured


def _paced(ways: list[Way], options: argparse.Namespace) -> None:
    """32 streams of 50 tokens a second: what is added to the first byte, and the longest silence."""
    asked = {"streams": 32, "rounds": 7, "tokens": 50, "pace_ms": 20}
    turns = _turns("paced", asked, ways, max(2, options.rounds // 2))
    _title("32 streams, 50 tokens/s: first byte, ms", "p50, p99 (and the longest gap between tokens, p99)")
    direct = turns["direct"]
    for name, results in turns.items():
        p50, p99 = _median(results, "first_ms", "p50"), _median(results, "first_ms", "p99")
        added = p50 - _median(direct, "first_ms", "p50"), p99 - _median(direct, "first_ms", "p99")
        gap = _median(results, "gap_ms", "p99")
        figures = f"{p50:6.2f} {p99:7.2f}   added {added[0]:5.2f} {added[1]:6.2f}   gap {gap:6.1f}"
        _row(name, results, figures)
    print("  wanted: at most 5 added at the median, at most 50 at p99")


def _mixed(ways: list[Way], options: argparse.Namespace) -> None:
    """200 streams at once, cut at random, every byte compared."""
    turns = _turns("mixed", {"streams": 200, "pieces": 40}, ways, max(2, options.rounds // 2))
    _title("200 streams at once, every byte compared", "the longest silence of any, the last one's end, ms")
    for name, results in turns.items():
        gap = _median(results, "longest_gap_ms")
        _row(name, results, f"{gap:7.0f} {_median(results, 'last_end_ms'):7.0f}")
    print("  wanted: none wrong, none stalled")


def _bulk(ways: list[Way], options: argparse.Namespace) -> None:
    """One stream at full speed: text chunks, and bytes with a length."""
    for opaque in (False, True):
        turns = _turns("bulk", {"megabytes": 300, "opaque": opaque}, ways, options.rounds)
        what = "bytes with a length" if opaque else "chunks of text"
        _title(f"one stream, {what}, 300 MB", "MB/s: median, best; MB a second of the proxy's processor time")
        for name, results in turns.items():
            rates = [result["mb_per_s"] for result in results]
            spent = [300 / result["cpu_s"] for result in results if result["cpu_s"]]
            own = f"{statistics.median(spent):7.0f}" if spent else ""
            _row(name, results, f"{statistics.median(rates):7.0f} {max(rates):7.0f} {own}")
    print("  wanted: at least 100 MB/s")


def _burst(ways: list[Way], options: argparse.Namespace) -> None:
    """New connections in one moment, each with a call."""
    for streams in (200, 1_000):
        turns = _turns("burst", {"streams": streams}, ways, max(2, options.rounds // 2))
        _title(
            f"{streams} new connections in one moment", "first byte, ms: p50, p99; processor time a call, ms"
        )
        for name, results in turns.items():
            p50, p99 = _median(results, "first_ms", "p50"), _median(results, "first_ms", "p99")
            spent_ms = _median(results, "cpu_s") * 1_000 / streams
            _row(name, results, f"{p50:7.0f} {p99:7.0f} {spent_ms:7.2f}")


def _memory(ways: list[Way], _options: argparse.Namespace) -> None:
    """What 1,000 live sessions, each with a stream under way, add to the process."""
    _title(
        "1,000 live sessions, each with a stream under way", "KiB of RSS a session: first time, second time"
    )
    for way in ways:
        if way.pid is not None:
            grown = [_grown_kib(way) / SESSIONS for _ in range(2)]
            print(f"  {way.name:<12} {grown[0]:6.1f} {grown[1]:6.1f}")
    print("  wanted: at most 64")


def _grown_kib(way: Way) -> int:
    before = _rss_kib(way.pid)
    argv = _load_argv("hold", {"streams": SESSIONS, "urls": way.urls})
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdout is not None
        assert load.stdin is not None
        assert json.loads(load.stdout.readline()) == {"open": SESSIONS}
        grown = _rss_kib(way.pid) - before
        load.stdin.close()
    return grown


# how


def _turns(mode: str, asked: dict[str, Any], ways: list[Way], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """What each way's turns gave, the ways taking turns; the processor time of the proxy with each."""
    results: dict[str, list[dict[str, Any]]] = {way.name: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            began_s = _cpu_s(way.pid)
            argv = _load_argv(mode, {**asked, "urls": way.urls})
            said = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300)
            results[way.name].append({**json.loads(said.stdout), "cpu_s": _cpu_s(way.pid) - began_s})
    return results


def _load_argv(mode: str, asked: dict[str, Any]) -> list[str]:
    return ["node", str(PEERS / "load.mjs"), mode, json.dumps(asked)]


def _median(results: list[dict[str, Any]], *path: str) -> float:
    def value(result: Any) -> float:
        for name in path:
            result = result[name]
        return float(result)

    return statistics.median(map(value, results))


def _title(what: str, columns: str) -> None:
    print(f"\n{what}\n  {'':<12} {columns}")


def _row(name: str, results: list[dict[str, Any]], figures: str) -> None:
    wrong = sum(result["wrong"] for result in results)
    print(f"  {name:<12} {figures}   wrong {wrong}", flush=True)


def _rss_kib(pid: int | None) -> int:
    """VmRSS of proc(5)."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _cpu_s(pid: int | None) -> float:
    """Processor time of a process so far: utime and stime of proc(5)."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# who takes part


@contextmanager
def _program(argv: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program that says one line when it is ready, and ends with its stdin."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            yield program, program.stdout.readline()
        finally:
            program.terminate()


@contextmanager
def _upstream() -> Iterator[int]:
    with _program(["node", str(PEERS / "upstream.mjs")]) as (_, line):
        yield int(line)


@contextmanager
def _gateway(upstream: int) -> Iterator[Way]:
    argv = [sys.executable, __file__, "--serve", f"http://127.0.0.1:{upstream}/v1"]
    with _program(argv) as (program, line):
        yield Way("gateway", json.loads(line), program.pid)


async def _serve(upstream: str) -> None:
    """The gateway alone in a process, with its sessions; says their addresses."""
    gateway = Gateway(Upstream(upstream, "sk-benchmark", trust_env=False))
    async with serve_gateway(gateway) as address:
        sessions = [gateway.open_session() for _ in range(SESSIONS)]
        print(json.dumps([session.base_url(address.url) for session in sessions]), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def _nginx(program: str, upstream: int) -> Iterator[Way]:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # the worker is another user
        port = _free_port()
        conf = Path(place) / "nginx.conf"
        conf.write_text(NGINX_CONF.format(place=place, port=port, upstream=upstream), "ascii")
        argv = [program, "-p", place, "-e", f"{place}/error.log", "-c", str(conf)]
        with subprocess.Popen(argv) as master:
            try:
                yield Way("nginx", [f"http://127.0.0.1:{port}/v1"], _worker_of(master))
            finally:
                master.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _worker_of(master: subprocess.Popen[bytes]) -> int:
    """The one process that nginx serves with."""
    children = Path(f"/proc/{master.pid}/task/{master.pid}/children")
    for _ in range(200):
        if master.poll() is not None:
            raise SystemExit(f"nginx ended at once with status {master.returncode}")
        pids = children.read_text("ascii").split()
        if pids:
            return int(pids[0])
        time.sleep(0.02)
    raise SystemExit("nginx has started no worker")


if __name__ == "__main__":
    main()

%% SPDX-License-Identifier: MIT

%% The workloads of bench/README.md with Erlang processes: CASE WORKERS N ROUNDS.
-module(bench).
-export([main/1]).
-export([now_ns/0, cpu_ns/0, print/3, memory/0, repeat/2, collect/1, await/2, finish/2]).

main([Case, Workers, N, Rounds]) ->
    put(workers, list_to_integer(Workers)),
    run(Case, list_to_integer(N), list_to_integer(Rounds)),
    erlang:halt(0, [{flush, true}]).

%% CPU time with one scheduler, wall time with more; in ns. The CPU clock ticks in ms.
now_ns() ->
    case get(workers) of
        1 -> cpu_ns();
        _ -> erlang:monotonic_time(nanosecond)
    end.

cpu_ns() -> element(1, erlang:statistics(runtime)) * 1000000.

print(Name, Value, Unit) -> io:format("~s ~.6g ~s~n", [Name, float(Value), Unit]).

%% What the process occupies, page tables included.
memory() ->
    {ok, Text} = file:read_file("/proc/self/status"),
    lists:sum([begin
                   {match, [Kib]} = re:run(Text, Key ++ ":\\s+(\\d+)", [{capture, [1], list}]),
                   list_to_integer(Kib) * 1024
               end || Key <- ["VmRSS", "VmPTE"]]).

random(I) ->
    M = 16#ffffffffffffffff,
    Z0 = ((I + 1) * 16#9e3779b97f4a7c15) band M,
    Z1 = ((Z0 bxor (Z0 bsr 30)) * 16#bf58476d1ce4e5b9) band M,
    Z2 = ((Z1 bxor (Z1 bsr 27)) * 16#94d049bb133111eb) band M,
    Z2 bxor (Z2 bsr 31).

repeat(0, _) -> ok;
repeat(N, F) -> F(), repeat(N - 1, F).

collect(0) -> ok;
collect(N) -> receive done -> collect(N - 1) end.

run("yield", Tasks, Each) ->
    Me = self(),
    Start = now_ns(),
    repeat(Tasks, fun() ->
        spawn(fun() -> yields(Each), Me ! done end)
    end),
    collect(Tasks),
    print("time", (now_ns() - Start) / (Tasks * Each), "ns");

run("spawn1", N, _) ->
    Me = self(),
    Child = fun() -> Me ! done end,
    One = fun() -> spawn(Child), receive done -> ok end end,
    repeat(N div 10, One),
    Start = now_ns(),
    repeat(N, One),
    print("time", (now_ns() - Start) / N, "ns");

run("batch", N, Rounds) ->
    Me = self(),
    Left = atomics:new(1, []),
    Child = fun() -> finish(Left, Me) end,
    Batch = fun() ->
        atomics:put(Left, 1, N),
        repeat(N, fun() -> spawn(Child) end),
        collect(1)
    end,
    Batch(),
    Start = now_ns(),
    repeat(Rounds, Batch),
    print("time", (now_ns() - Start) / (N * Rounds), "ns");

%% Every message parks one side and wakes the other.
run("parkwake", N, _) ->
    Me = self(),
    Echo = spawn(fun() -> echo(Me) end),
    Turn = fun() -> Echo ! ping, receive pong -> ok end end,
    repeat(N div 10, Turn),
    Start = now_ns(),
    repeat(N, Turn),
    print("time", (now_ns() - Start) / (2 * N), "ns");

run("parked", N, _) ->
    Me = self(),
    Counter = counters:new(1, [write_concurrency]),
    Left = atomics:new(1, []),
    atomics:put(Left, 1, N),
    Child = fun() -> counters:add(Counter, 1, 1), receive go -> finish(Left, Me) end end,
    Before = memory(),
    Start = now_ns(),
    Pids = spawn_all(N, Child, []),
    await(Counter, N),
    print("create", (now_ns() - Start) / 1.0e9, "s"),
    print("memory", (memory() - Before) / N, "B"),
    Wake = now_ns(),
    [Pid ! go || Pid <- Pids],
    collect(1),
    print("wake", (now_ns() - Wake) / 1.0e9, "s");

run("sleepers", N, SpanMs) ->
    Me = self(),
    Late = atomics:new(N, []),
    Left = atomics:new(1, []),
    atomics:put(Left, 1, N),
    Start = cpu_ns(),
    sleep_all(N, SpanMs, Late, Left, Me),
    collect(1),
    print("cpu", (cpu_ns() - Start) / 1.0e9, "s"),
    Sorted = list_to_tuple(lists:sort([atomics:get(Late, I) || I <- lists:seq(1, N)])),
    print("late_p50", element(N div 2, Sorted) / 1.0e6, "ms"),
    print("late_p99", element(N div 100 * 99, Sorted) / 1.0e6, "ms");

run(Case, N, Rounds) -> bench_otp:start(Case, N, Rounds).

yields(0) -> ok;
yields(N) -> erlang:yield(), yields(N - 1).

echo(To) -> receive ping -> To ! pong, echo(To) end.

spawn_all(0, _, Pids) -> Pids;
spawn_all(N, F, Pids) -> spawn_all(N - 1, F, [spawn(F) | Pids]).

await(Counter, N) ->
    case counters:get(Counter, 1) of
        N -> ok;
        _ -> erlang:yield(), await(Counter, N)
    end.

%% Timers of Erlang count milliseconds, so the span is rounded up to one.
sleep_all(0, _, _, _, _) -> ok;
sleep_all(I, SpanMs, Late, Left, Me) ->
    spawn(fun() ->
        Ms = random(I - 1) rem (SpanMs * 1000000) div 1000000 + 1,
        Deadline = erlang:monotonic_time(nanosecond) + Ms * 1000000,
        receive after Ms -> ok end,
        atomics:put(Late, I, erlang:monotonic_time(nanosecond) - Deadline),
        finish(Left, Me)
    end),
    sleep_all(I - 1, SpanMs, Late, Left, Me).

%% The last one tells: a million messages in one mailbox cost more than what is measured.
finish(Left, Me) ->
    case atomics:sub_get(Left, 1, 1) of
        0 -> Me ! done;
        _ -> ok
    end.

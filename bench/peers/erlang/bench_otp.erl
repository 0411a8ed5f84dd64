%% SPDX-License-Identifier: MIT

%% The workloads of bench/README.md with servers, monitors, names and supervisors.
-module(bench_otp).
-export([start/3]).

-define(STRIDE, 7919).
-define(EACH, 100). % restarts of one supervisor, which remembers those of the last second in a list

%% In a process of its own: the one that runs main traps exits, so that each server that has ended
%% would leave a message.
start(Case, N, Rounds) ->
    Workers = get(workers),
    {_, Ref} = spawn_monitor(fun() -> put(workers, Workers), run(Case, N, Rounds) end),
    receive {'DOWN', Ref, process, _, normal} -> ok end.

%% N calls in all; with many clients each has its share.
run("call", N, Clients) ->
    {ok, Server} = bench_server:start_link(),
    time_calls(N, lists:duplicate(Clients, Server));

run("callpairs", N, Pairs) ->
    Servers = [element(2, bench_server:start_link()) || _ <- lists:seq(1, Pairs)],
    time_calls(N, Servers);

%% Each sender ends with a call, which is answered when all it has cast is done.
run("cast", N, Senders) ->
    {ok, Server} = bench_server:start_link(),
    cast_all(N div 10, Senders, Server),
    time_each("time", N, fun() -> cast_all(N, Senders, Server) end),
    Sum = N div Senders * Senders + N div 10 div Senders * Senders,
    Sum = gen_server:call(Server, sum, infinity);

run("serverstart", N, _) ->
    One = fun() ->
        {ok, Server} = bench_server:start_link(),
        gen_server:stop(Server)
    end,
    bench:repeat(N div 10, One),
    Start = bench:now_ns(),
    bench:repeat(N, One),
    bench:print("time", (bench:now_ns() - Start) / N, "ns");

run("serveralive", N, _) ->
    Before = bench:memory(),
    Start = bench:now_ns(),
    Servers = start_all(N, []),
    bench:print("start", (bench:now_ns() - Start) / N, "ns"),
    [1 = gen_server:call(Server, 0, infinity) || Server <- Servers],
    bench:print("memory", (bench:memory() - Before) / N, "B"),
    Stop = bench:now_ns(),
    [ok = gen_server:stop(Server) || Server <- Servers],
    bench:print("stop", (bench:now_ns() - Stop) / N, "ns");

run("monitor", N, _) ->
    Child = fun() -> ok end,
    One = fun() ->
        {_, Ref} = spawn_monitor(Child),
        receive {'DOWN', Ref, process, _, normal} -> ok end
    end,
    bench:repeat(N div 10, One),
    Start = bench:now_ns(),
    bench:repeat(N, One),
    bench:print("time", (bench:now_ns() - Start) / N, "ns"),
    Idle = spawn(fun() -> receive stop -> ok end end),
    Again = bench:now_ns(),
    bench:repeat(N, fun() -> erlang:demonitor(erlang:monitor(process, Idle), [flush]) end),
    bench:print("revoked", (bench:now_ns() - Again) / N, "ns");

%% So many rounds in which N processes watch one that ends.
run("watched", N, Rounds) ->
    watch_all(N),
    Start = bench:now_ns(),
    bench:repeat(Rounds, fun() -> watch_all(N) end),
    bench:print("time", (bench:now_ns() - Start) / (N * Rounds), "ns");

run("whereis", N, Count) ->
    Atoms = [list_to_atom(name(I)) || I <- lists:seq(0, Count - 1)],
    Binaries = [list_to_binary(name(I)) || I <- lists:seq(0, Count - 1)],
    Table = ets:new(names, [public, {read_concurrency, true}]),
    lists:foreach(fun({Atom, Binary}) ->
        Pid = spawn(fun() -> receive stop -> ok end end),
        register(Atom, Pid),
        ets:insert(Table, {Binary, Pid})
    end, lists:zip(Atoms, Binaries)),
    Named = list_to_tuple(Atoms),
    Keys = list_to_tuple(Binaries),
    look_up("time", N, fun(Times, At) -> find(Times, At, Count, Named) end),
    look_up("ets", N, fun(Times, At) -> find_in(Table, Times, At, Count, Keys) end);

%% N restarts of one child after the other; single ones by the wall clock.
run("restart", N, _) ->
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    _ = restart_times(?EACH),
    Start = bench:now_ns(),
    Took = lists:append([restart_times(?EACH) || _ <- lists:seq(1, N div ?EACH)]),
    bench:print("time", (bench:now_ns() - Start) / length(Took) / 1000, "us"),
    Sorted = list_to_tuple(lists:sort(Took)),
    Count = tuple_size(Sorted),
    bench:print("p50", element(Count div 2, Sorted) / 1000, "us"),
    bench:print("p99", element(Count * 99 div 100, Sorted) / 1000, "us");

%% N children of one supervisor fail at once, so many rounds, each with a new supervisor: the median
%% of the rounds by the wall clock.
run("restartall", N, Rounds) ->
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    _ = restart_all(N),
    Took = lists:sort([restart_all(N) || _ <- lists:seq(1, Rounds)]),
    bench:print("time", lists:nth(Rounds div 2 + 1, Took) / N / 1000, "us");

run("children", N, _) ->
    process_flag(trap_exit, true),
    {ok, Sup} = bench_sup:start_link(template),
    Before = bench:memory(),
    Start = bench:now_ns(),
    bench:repeat(N, fun() -> {ok, _} = supervisor:start_child(Sup, []) end),
    bench:print("start", (bench:now_ns() - Start) / N / 1000, "us"),
    bench:print("memory", (bench:memory() - Before) / N, "B"),
    Stop = bench:now_ns(),
    end_supervisor(Sup),
    bench:print("stop", (bench:now_ns() - Stop) / N / 1000, "us").

time_calls(N, Servers) ->
    call_all(N div 10, Servers),
    time_each("time", N, fun() -> call_all(N, Servers) end).

%% What each of N takes, by the clock and of the CPUs.
time_each(Metric, N, Work) ->
    Cpu = bench:cpu_ns(),
    Start = bench:now_ns(),
    Work(),
    bench:print(Metric, (bench:now_ns() - Start) / N, "ns"),
    Metric =/= "time" orelse bench:print("cpu", (bench:cpu_ns() - Cpu) / N, "ns").

call_all(N, [Server]) -> calls(N, Server);
call_all(N, Servers) ->
    Me = self(),
    Clients = length(Servers),
    Left = atomics:new(1, []),
    atomics:put(Left, 1, Clients),
    [spawn(fun() -> calls(N div Clients, Server), bench:finish(Left, Me) end) || Server <- Servers],
    bench:collect(1).

calls(0, _) -> ok;
calls(N, Server) ->
    Next = N + 1,
    Next = gen_server:call(Server, N, infinity),
    calls(N - 1, Server).

cast_all(N, 1, Server) -> casts(N, Server);
cast_all(N, Senders, Server) ->
    Me = self(),
    bench:repeat(Senders, fun() -> spawn(fun() -> casts(N div Senders, Server), Me ! done end) end),
    bench:collect(Senders).

casts(0, Server) -> gen_server:call(Server, sum, infinity);
casts(N, Server) ->
    gen_server:cast(Server, 1),
    casts(N - 1, Server).

start_all(0, Servers) -> Servers;
start_all(N, Servers) ->
    {ok, Server} = bench_server:start_link(),
    start_all(N - 1, [Server | Servers]).

watch_all(N) ->
    Me = self(),
    Watching = counters:new(1, []),
    Left = atomics:new(1, []),
    atomics:put(Left, 1, N),
    Watched = spawn(fun() -> receive stop -> ok end end),
    bench:repeat(N, fun() ->
        spawn(fun() ->
            Ref = monitor(process, Watched),
            counters:add(Watching, 1, 1),
            receive {'DOWN', Ref, process, _, normal} -> bench:finish(Left, Me) end
        end)
    end),
    bench:await(Watching, N),
    Watched ! stop,
    bench:collect(1).

name(I) -> lists:flatten(io_lib:format("service.~5..0w", [I])).

%% One process for each scheduler.
look_up(Metric, N, Find) ->
    Me = self(),
    Workers = get(workers),
    time_each(Metric, N, fun() ->
        [spawn(fun() -> Find(N div Workers, I), Me ! done end) || I <- lists:seq(0, Workers - 1)],
        bench:collect(Workers)
    end).

find(0, _, _, _) -> ok;
find(Times, At, Count, Names) ->
    true = is_pid(whereis(element(At + 1, Names))),
    find(Times - 1, (At + ?STRIDE) rem Count, Count, Names).

find_in(_, 0, _, _, _) -> ok;
find_in(Table, Times, At, Count, Keys) ->
    true = is_pid(ets:lookup_element(Table, element(At + 1, Keys), 2)),
    find_in(Table, Times - 1, (At + ?STRIDE) rem Count, Count, Keys).

restart_times(Times) ->
    {ok, Sup} = bench_sup:start_link({many, 1, self()}),
    Took = crash_each(Times, next_up(), []),
    end_supervisor(Sup),
    Took.

crash_each(0, _, Took) -> Took;
crash_each(Times, Server, Took) ->
    Start = erlang:monotonic_time(nanosecond),
    gen_server:cast(Server, crash),
    Next = next_up(),
    crash_each(Times - 1, Next, [erlang:monotonic_time(nanosecond) - Start | Took]).

next_up() -> receive {up, Server} -> Server end.

restart_all(N) ->
    {ok, Sup} = bench_sup:start_link({many, N, self()}),
    Servers = [next_up() || _ <- lists:seq(1, N)],
    Start = erlang:monotonic_time(nanosecond),
    [gen_server:cast(Server, crash) || Server <- Servers],
    [next_up() || _ <- lists:seq(1, N)],
    Took = erlang:monotonic_time(nanosecond) - Start,
    end_supervisor(Sup),
    Took.

%% As its own supervisor would do it.
end_supervisor(Sup) ->
    Ref = monitor(process, Sup),
    exit(Sup, shutdown),
    receive {'DOWN', Ref, process, _, shutdown} -> ok end,
    receive {'EXIT', Sup, shutdown} -> ok end.

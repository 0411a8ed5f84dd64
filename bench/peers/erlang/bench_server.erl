%% SPDX-License-Identifier: MIT

%% The server of the workloads: it answers a number with the next one and adds up what is cast.
-module(bench_server).
-behaviour(gen_server).
-export([start_link/0, start_link/1, init/1, handle_call/3, handle_cast/2]).

start_link() -> gen_server:start_link(?MODULE, nobody, []).

%% Tells somebody as soon as it is up.
start_link(Who) -> gen_server:start_link(?MODULE, Who, []).

init(nobody) -> {ok, 0};
init(Who) ->
    Who ! {up, self()},
    {ok, 0}.

handle_call(sum, _, Sum) -> {reply, Sum, Sum};
handle_call(Number, _, Sum) -> {reply, Number + 1, Sum}.

%% A reason of this kind is the cheapest: nothing is written to the log.
handle_cast(crash, Sum) -> {stop, {shutdown, crash}, Sum};
handle_cast(Number, Sum) -> {noreply, Sum + Number}.

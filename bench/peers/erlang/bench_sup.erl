%% SPDX-License-Identifier: MIT

%% A supervisor of so many servers that come back whenever they end, or of any number of one kind.
-module(bench_sup).
-behaviour(supervisor).
-export([start_link/1, init/1]).

start_link(Plan) -> supervisor:start_link(?MODULE, Plan).

init({many, Count, Who}) ->
    Children = [#{id => I, start => {bench_server, start_link, [Who]}} || I <- lists:seq(1, Count)],
    {ok, {#{strategy => one_for_one, intensity => 1000000, period => 1}, Children}};
init(template) ->
    Child = #{id => server, start => {bench_server, start_link, []}, restart => temporary},
    {ok, {#{strategy => simple_one_for_one}, [Child]}}.

// SPDX-License-Identifier: MIT

//! The workloads with servers: tasks that own their state and are asked through a channel.
use crate::{join_all, memory, now, print};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use tokio::sync::mpsc::{channel, Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

const MAILBOX: usize = 1024;
const STRIDE: usize = 7919;

enum Message {
    Call(i64, oneshot::Sender<i64>),
    Cast(i64),
    Sum(oneshot::Sender<i64>),
}

async fn serve(mut mailbox: Receiver<Message>) {
    let mut sum = 0;
    while let Some(message) = mailbox.recv().await {
        match message {
            Message::Call(value, reply) => {
                let _ = reply.send(value + 1);
            }
            Message::Cast(value) => sum += value,
            Message::Sum(reply) => {
                let _ = reply.send(sum);
            }
        }
    }
}

/// What the clients of a server have of it; it ends when the last one is dropped.
#[derive(Clone)]
struct Server(Sender<Message>);

impl Server {
    fn start() -> (Server, JoinHandle<()>) {
        let (send, receive) = channel(MAILBOX);
        (Server(send), tokio::spawn(serve(receive)))
    }

    async fn call(&self, value: i64) -> i64 {
        let (reply, answer) = oneshot::channel();
        self.0.send(Message::Call(value, reply)).await.ok().unwrap();
        answer.await.unwrap()
    }

    async fn cast(&self, value: i64) {
        self.0.send(Message::Cast(value)).await.ok().unwrap();
    }

    async fn sum(&self) -> i64 {
        let (reply, answer) = oneshot::channel();
        self.0.send(Message::Sum(reply)).await.ok().unwrap();
        answer.await.unwrap()
    }
}

/// What each of n took since then, by the clock and of the CPUs.
fn print_each(w: usize, n: usize, start: (i64, i64)) {
    print("time", (now(w) - start.0) as f64 / n as f64, "ns");
    print("cpu", (now(1) - start.1) as f64 / n as f64, "ns");
}

async fn calls(server: Server, n: usize) {
    for i in 0..n as i64 {
        assert_eq!(server.call(i).await, i + 1);
    }
}

/// Makes n calls in all, from as many clients as there are servers in the list.
async fn call_all(n: usize, servers: &[Server]) {
    if let [server] = servers {
        return calls(server.clone(), n).await;
    }
    let each = n / servers.len();
    join_all(servers.iter().map(|s| tokio::spawn(calls(s.clone(), each))).collect()).await;
}

async fn time_calls(w: usize, n: usize, servers: &[Server]) {
    call_all(n / 10, servers).await;
    let start = (now(w), now(1));
    call_all(n, servers).await;
    print_each(w, n, start);
}

async fn call_one(w: usize, n: usize, clients: usize) {
    let (server, _) = Server::start();
    time_calls(w, n, &vec![server; clients]).await;
}

async fn call_pairs(w: usize, n: usize, pairs: usize) {
    let servers: Vec<_> = (0..pairs).map(|_| Server::start().0).collect();
    time_calls(w, n, &servers).await;
}

/// Casts n times in all; each sender ends with a call, so that all its casts are done.
async fn cast_all(n: usize, senders: usize, server: &Server) {
    let each = n / senders;
    let all = (0..senders).map(|_| {
        let server = server.clone();
        tokio::spawn(async move {
            for _ in 0..each {
                server.cast(1).await;
            }
            server.sum().await;
        })
    });
    join_all(all.collect()).await;
}

async fn casting(w: usize, n: usize, senders: usize) {
    let (server, _) = Server::start();
    cast_all(n / 10, senders, &server).await;
    let start = (now(w), now(1));
    cast_all(n, senders, &server).await;
    print_each(w, n, start);
    let all = n / senders * senders + n / 10 / senders * senders;
    assert_eq!(server.sum().await, all as i64);
}

async fn server_start(w: usize, n: usize) {
    let mut start = 0;
    for i in 0..n / 10 + n {
        if i == n / 10 {
            start = now(w);
        }
        let (server, task) = Server::start();
        drop(server);
        task.await.unwrap();
    }
    print("time", (now(w) - start) as f64 / n as f64, "ns");
}

async fn server_alive(w: usize, n: usize) {
    let mut servers = Vec::with_capacity(n);
    let before = memory();
    let start = now(w);
    for _ in 0..n {
        servers.push(Server::start());
    }
    print("start", (now(w) - start) as f64 / n as f64, "ns");
    for (server, _) in &servers {
        server.call(0).await;
    }
    print("memory", (memory() - before) as f64 / n as f64, "B");
    let start = now(w);
    for (server, task) in servers {
        drop(server);
        task.await.unwrap();
    }
    print("stop", (now(w) - start) as f64 / n as f64, "ns");
}

/// The handle of a task tells its one owner how it ended.
async fn monitoring(w: usize, n: usize) {
    let mut start = 0;
    for i in 0..n / 10 + n {
        if i == n / 10 {
            start = now(w);
        }
        assert!(tokio::spawn(async {}).await.is_ok());
    }
    print("time", (now(w) - start) as f64 / n as f64, "ns");
}

/// A handle has one owner, so that others learn of the end by a watch whose sender is dropped.
async fn watch_all(n: usize) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (alive, over) = watch::channel(());
    let watched = tokio::spawn(async move {
        let _ = stopped.await;
        drop(alive);
    });
    let watching = Arc::new(AtomicUsize::new(0));
    let all = (0..n).map(|_| {
        let (watching, mut over) = (watching.clone(), over.clone());
        tokio::spawn(async move {
            watching.fetch_add(1, Ordering::Relaxed);
            assert!(over.changed().await.is_err());
        })
    });
    let all = all.collect();
    while watching.load(Ordering::Relaxed) < n {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    watched.await.unwrap();
    join_all(all).await;
}

async fn watched(w: usize, n: usize, rounds: usize) {
    watch_all(n).await;
    let start = now(w);
    for _ in 0..rounds {
        watch_all(n).await;
    }
    print("time", (now(w) - start) as f64 / (n * rounds) as f64, "ns");
}

struct Registry {
    names: Vec<String>,
    servers: RwLock<HashMap<String, Sender<Message>>>,
}

async fn find_all(w: usize, times: usize, registry: &Arc<Registry>) {
    let all = (0..w).map(|first| {
        let registry = registry.clone();
        tokio::spawn(async move {
            let mut at = first;
            for _ in 0..times / w {
                let servers = registry.servers.read().unwrap();
                assert!(!servers.get(&registry.names[at]).unwrap().is_closed());
                at = (at + STRIDE) % registry.names.len();
            }
        })
    });
    join_all(all.collect()).await;
}

/// tokio has no names; a map behind a lock for many readers is what the standard library offers.
async fn whereis(w: usize, n: usize, count: usize) {
    let names: Vec<_> = (0..count).map(|i| format!("service.{:05}", i)).collect();
    let ends: Vec<_> = (0..count).map(|_| channel(1)).collect();
    let servers = names.iter().cloned().zip(ends.iter().map(|(send, _)| send.clone())).collect();
    let registry = Arc::new(Registry { names, servers: RwLock::new(servers) });
    find_all(w, n / 10, &registry).await;
    let start = (now(w), now(1));
    find_all(w, n, &registry).await;
    print_each(w, n, start);
}

/// Runs one of the cases above; false: there is none of this name.
pub async fn run(case: &str, w: usize, n: usize, rounds: usize) -> bool {
    match case {
        "call" => call_one(w, n, rounds).await,
        "callpairs" => call_pairs(w, n, rounds).await,
        "cast" => casting(w, n, rounds).await,
        "serverstart" => server_start(w, n).await,
        "serveralive" => server_alive(w, n).await,
        "monitor" => monitoring(w, n).await,
        "watched" => watched(w, n, rounds).await,
        "whereis" => whereis(w, n, rounds).await,
        _ => return false,
    }
    true
}

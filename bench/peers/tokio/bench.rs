// SPDX-License-Identifier: MIT

//! The workloads of bench/README.md with tokio tasks: bench CASE WORKERS N ROUNDS.
mod server;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{channel, Receiver, Sender};
use tokio::sync::{watch, Mutex, Notify, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

/// Wall time, ns.
fn wall() -> i64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(id: libc::clockid_t) -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// CPU time with one worker, wall time with more.
fn now(workers: usize) -> i64 {
    clock(if workers == 1 { libc::CLOCK_PROCESS_CPUTIME_ID } else { libc::CLOCK_MONOTONIC })
}

/// What the process occupies, page tables included.
fn memory() -> i64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines()
        .filter(|l| l.starts_with("VmRSS:") || l.starts_with("VmPTE:"))
        .map(|l| l.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() * 1024)
        .sum()
}

fn random(i: u64) -> u64 {
    let mut z = (i + 1).wrapping_mul(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d049bb133111eb);
    z ^ z >> 31
}

fn print(name: &str, value: f64, unit: &str) {
    println!("{} {} {}", name, value, unit);
}

async fn join_all(all: Vec<JoinHandle<()>>) {
    for handle in all {
        handle.await.unwrap();
    }
}

async fn yields(w: usize, tasks: usize, each: usize) {
    let start = now(w);
    let all = (0..tasks)
        .map(|_| {
            tokio::spawn(async move {
                for _ in 0..each {
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    join_all(all).await;
    print("time", (now(w) - start) as f64 / (tasks * each) as f64, "ns");
}

async fn spawn1(w: usize, n: usize) {
    for _ in 0..n / 10 {
        tokio::spawn(async {}).await.unwrap();
    }
    let start = now(w);
    for _ in 0..n {
        tokio::spawn(async {}).await.unwrap();
    }
    print("time", (now(w) - start) as f64 / n as f64, "ns");
}

async fn batch(w: usize, n: usize, rounds: usize) {
    let mut start = 0;
    for round in 0..rounds + 1 {
        if round == 1 {
            start = now(w);
        }
        join_all((0..n).map(|_| tokio::spawn(async {})).collect()).await;
    }
    print("time", (now(w) - start) as f64 / (n * rounds) as f64, "ns");
}

/// Every notification wakes one side, which notifies the other and parks again.
async fn ping_pong(w: usize, n: usize) {
    let pair = Arc::new((Notify::new(), Notify::new()));
    let other = pair.clone();
    let echo = tokio::spawn(async move {
        for _ in 0..n / 10 + n {
            other.0.notified().await;
            other.1.notify_one();
        }
    });
    let mut start = 0;
    for i in 0..n / 10 + n {
        if i == n / 10 {
            start = now(w);
        }
        pair.0.notify_one();
        pair.1.notified().await;
    }
    print("time", (now(w) - start) as f64 / (2 * n) as f64, "ns");
    echo.await.unwrap();
}

fn fib(n: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let left = tokio::spawn(fib(n - 1));
        let right = fib(n - 2).await;
        left.await.unwrap() + right
    })
}

async fn fork_join(w: usize, n: usize, rounds: usize) {
    let (mut a, mut b) = (0, 1);
    for _ in 0..n {
        (a, b) = (b, a + b);
    }
    let spawns = b - 1; // fib(n+1) - 1 calls are above the leaves, and each spawns once
    let mut start = 0;
    for round in 0..rounds + 1 {
        if round == 1 {
            start = now(w);
        }
        assert_eq!(fib(n).await, a);
    }
    print("time", (now(w) - start) as f64 / (spawns * rounds) as f64, "ns");
}

fn sky(first: usize, size: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        if size == 1 {
            return first;
        }
        let step = size / 10;
        let children: Vec<_> = (0..10).map(|i| tokio::spawn(sky(first + i * step, step))).collect();
        let mut sum = 0;
        for child in children {
            sum += child.await.unwrap();
        }
        sum
    })
}

async fn skynet(w: usize, n: usize, rounds: usize) {
    let mut start = 0;
    for round in 0..rounds + 1 {
        if round == 1 {
            start = now(w);
        }
        assert_eq!(sky(0, n).await, n * (n - 1) / 2);
    }
    print("time", (now(w) - start) as f64 / rounds as f64 / 1e6, "ms");
}

struct Gate {
    open: Notify,
    all_done: Notify,
    waiting: AtomicUsize,
    left: AtomicUsize,
}

async fn parked(w: usize, n: usize) {
    let gate = Arc::new(Gate {
        open: Notify::new(),
        all_done: Notify::new(),
        waiting: AtomicUsize::new(0),
        left: AtomicUsize::new(n),
    });
    let before = memory();
    let start = now(w);
    for _ in 0..n {
        let gate = gate.clone();
        tokio::spawn(async move {
            gate.waiting.fetch_add(1, Ordering::Relaxed);
            gate.open.notified().await;
            if gate.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                gate.all_done.notify_one();
            }
        });
    }
    while gate.waiting.load(Ordering::Relaxed) < n {
        tokio::task::yield_now().await;
    }
    print("create", (now(w) - start) as f64 / 1e9, "s");
    print("memory", (memory() - before) as f64 / n as f64, "B");
    let start = now(w);
    gate.open.notify_waiters();
    gate.all_done.notified().await;
    print("wake", (now(w) - start) as f64 / 1e9, "s");
}

/// All tasks wait in the run queue at once; none has run when the memory is read.
async fn queued(w: usize, n: usize) {
    let done = Arc::new(AtomicUsize::new(0));
    let before = memory();
    let start = now(w);
    for _ in 0..n {
        let done = done.clone();
        tokio::spawn(async move {
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(done.load(Ordering::Relaxed), 0);
    print("create", (now(w) - start) as f64 / 1e9, "s");
    print("memory", (memory() - before) as f64 / n as f64, "B");
    let start = now(w);
    while done.load(Ordering::Relaxed) < n {
        tokio::task::yield_now().await;
    }
    print("run", (now(w) - start) as f64 / 1e9, "s");
}

async fn sleepers(n: usize, span_ms: usize) {
    let late: Arc<Vec<AtomicI64>> = Arc::new((0..n).map(|_| AtomicI64::new(-1)).collect());
    let left = Arc::new((AtomicUsize::new(n), Notify::new()));
    let start = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
    for i in 0..n {
        let late = late.clone();
        let left = left.clone();
        tokio::spawn(async move {
            let span = Duration::from_nanos(random(i as u64) % (span_ms as u64 * 1_000_000));
            let deadline = Instant::now() + span;
            tokio::time::sleep_until(deadline.into()).await;
            let by = Instant::now().saturating_duration_since(deadline).as_nanos() as i64;
            late[i].store(by, Ordering::Relaxed);
            if left.0.fetch_sub(1, Ordering::AcqRel) == 1 {
                left.1.notify_one();
            }
        });
    }
    left.1.notified().await;
    print("cpu", (clock(libc::CLOCK_PROCESS_CPUTIME_ID) - start) as f64 / 1e9, "s");
    let mut sorted: Vec<i64> = late.iter().map(|l| l.load(Ordering::Relaxed)).collect();
    sorted.sort_unstable();
    print("late_p50", sorted[n / 2] as f64 / 1e6, "ms");
    print("late_p99", sorted[n / 100 * 99] as f64 / 1e6, "ms");
}

/// The smallest buffer that tokio has, one item, stands for none.
async fn echo(mut ping: Receiver<usize>, pong: Sender<usize>) {
    while let Some(item) = ping.recv().await {
        pong.send(item).await.unwrap();
    }
}

async fn turns(w: usize, n: usize, ping: Sender<usize>, mut pong: Receiver<usize>) {
    let mut start = 0;
    for i in 0..n / 10 + n {
        if i == n / 10 {
            start = now(w);
        }
        ping.send(i).await.unwrap();
        assert_eq!(pong.recv().await, Some(i));
    }
    print("time", (now(w) - start) as f64 / (2 * n) as f64, "ns");
}

async fn chan_ping(w: usize, n: usize) {
    let (ping, ping_end) = channel(1);
    let (pong, pong_end) = channel(1);
    let other = tokio::spawn(echo(ping_end, pong));
    turns(w, n, ping, pong_end).await;
    other.await.unwrap();
}

/// A runtime of its own for the other side, so that the two cannot meet on one worker.
fn apart() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

async fn cross_ping(w: usize, n: usize) {
    let (ping, ping_end) = channel(1);
    let (pong, pong_end) = channel(1);
    let far = apart();
    let other = far.spawn(echo(ping_end, pong));
    turns(w, n, ping, pong_end).await;
    other.await.unwrap();
    far.shutdown_background();
}

async fn send_all(to: Sender<usize>, count: usize) {
    for i in 0..count {
        to.send(i).await.unwrap();
    }
}

async fn pour(n: usize) {
    let (to, mut from) = channel(128);
    let receiver = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(item) = from.recv().await {
            sum += item;
        }
        sum
    });
    tokio::spawn(send_all(to, n)).await.unwrap();
    assert_eq!(receiver.await.unwrap(), n * (n - 1) / 2);
}

async fn buffered(w: usize, n: usize) {
    pour(n / 10).await;
    let start = now(w);
    pour(n).await;
    print("time", (now(w) - start) as f64 / n as f64, "ns");
}

async fn cross_buffered(w: usize, n: usize) {
    let (to, mut from) = channel(128);
    let warm = n / 10;
    let far = apart();
    far.spawn(send_all(to, warm + n));
    let (mut start, mut count) = (0, 0);
    while from.recv().await.is_some() {
        if count == warm {
            start = now(w);
        }
        count += 1;
    }
    print("time", (now(w) - start) as f64 / n as f64, "ns");
    assert_eq!(count, warm + n);
    far.shutdown_background();
}

/// A token goes round n channels; returns how long it took.
async fn go_round(w: usize, n: usize, laps: usize) -> i64 {
    let (finish, mut finished) = channel(1);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..n).map(|_| channel::<usize>(1)).unzip();
    let mut all = Vec::new();
    for (i, mut from) in receivers.into_iter().enumerate() {
        let to = senders[(i + 1) % n].clone();
        let finish = finish.clone();
        all.push(tokio::spawn(async move {
            for lap in 1..laps + 1 {
                let token = from.recv().await.unwrap() + 1;
                if i == n - 1 && lap == laps {
                    finish.send(token).await.unwrap();
                } else {
                    to.send(token).await.unwrap();
                }
            }
        }));
    }
    tokio::task::yield_now().await;
    let start = now(w);
    senders[0].send(0).await.unwrap();
    assert_eq!(finished.recv().await, Some(laps * n));
    let took = now(w) - start;
    join_all(all).await;
    took
}

async fn ring_of(w: usize, n: usize, laps: usize) {
    go_round(w, n, laps / 10 + 1).await;
    print("time", go_round(w, n, laps).await as f64 / (n * laps) as f64, "ns");
}

async fn selects2(all: &mut [Receiver<usize>], count: usize) {
    let [a, b] = all else { unreachable!() };
    for _ in 0..count {
        let (item, at) = tokio::select! {
            item = a.recv() => (item, 0),
            item = b.recv() => (item, 1),
        };
        assert_eq!(item.unwrap() % 2, at); // as below
    }
}

async fn selects8(all: &mut [Receiver<usize>], count: usize) {
    let [a, b, c, d, e, f, g, h] = all else { unreachable!() };
    for _ in 0..count {
        let (item, at) = tokio::select! {
            item = a.recv() => (item, 0),
            item = b.recv() => (item, 1),
            item = c.recv() => (item, 2),
            item = d.recv() => (item, 3),
            item = e.recv() => (item, 4),
            item = f.recv() => (item, 5),
            item = g.recv() => (item, 6),
            item = h.recv() => (item, 7),
        };
        // The sender may be ahead by a buffer of one in each channel: only the channel is checked.
        assert_eq!(item.unwrap() % 8, at);
    }
}

/// One side sends to k channels in turn, the other selects over all of them.
async fn select_over(w: usize, n: usize, k: usize) {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..k).map(|_| channel::<usize>(1)).unzip();
    let other = tokio::spawn(async move {
        for i in 0..n / 10 + n {
            senders[i % k].send(i).await.unwrap();
        }
        senders // alive until the last item is taken: a closed channel is always ready
    });
    let mut start = 0;
    for count in [n / 10, n] {
        start = now(w);
        match k {
            2 => selects2(&mut receivers, count).await,
            _ => selects8(&mut receivers, count).await,
        }
    }
    print("time", (now(w) - start) as f64 / n as f64, "ns");
    other.await.unwrap();
}

async fn lock_all(tasks: usize, each: usize, yields: bool) {
    let sum = Arc::new(Mutex::new(0));
    let all = (0..tasks)
        .map(|_| {
            let sum = sum.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    let mut held = sum.lock().await;
                    *held += 1;
                    if yields {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    join_all(all).await;
    assert_eq!(*sum.lock().await, tasks * each);
}

async fn mutex(w: usize, n: usize, tasks: usize, yields: bool) {
    let each = n / tasks;
    lock_all(tasks, each / 10, yields).await;
    let start = now(w);
    lock_all(tasks, each, yields).await;
    print("time", (now(w) - start) as f64 / (tasks * each) as f64, "ns");
}

fn chan_sky(
    first: usize,
    size: usize,
    up: Sender<usize>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if size == 1 {
            up.send(first).await.unwrap();
            return;
        }
        let (to, mut from) = channel(1);
        for i in 0..10 {
            tokio::spawn(chan_sky(first + i * (size / 10), size / 10, to.clone()));
        }
        let mut sum = 0;
        for _ in 0..10 {
            sum += from.recv().await.unwrap();
        }
        up.send(sum).await.unwrap();
    })
}

async fn chan_skynet(w: usize, n: usize, rounds: usize) {
    let (to, mut from) = channel(1);
    let mut start = 0;
    for round in 0..rounds + 1 {
        if round == 1 {
            start = now(w);
        }
        tokio::spawn(chan_sky(0, n, to.clone()));
        assert_eq!(from.recv().await, Some(n * (n - 1) / 2));
    }
    print("time", (now(w) - start) as f64 / rounds as f64 / 1e6, "ms");
}

/// The close itself, the last receiver awake, all over. A watch is the channel of tokio that many
/// can wait for; it closes when its sender is dropped.
async fn close_once(w: usize, n: usize) -> [i64; 3] {
    let (to, from) = watch::channel(0);
    let waiting = Arc::new((AtomicUsize::new(0), AtomicI64::new(0)));
    let all = (0..n)
        .map(|_| {
            let mut from = from.clone();
            let waiting = waiting.clone();
            tokio::spawn(async move {
                waiting.0.fetch_add(1, Ordering::Relaxed);
                assert!(from.changed().await.is_err());
                if waiting.0.fetch_sub(1, Ordering::Relaxed) == 1 {
                    waiting.1.store(now(w), Ordering::Relaxed);
                }
            })
        })
        .collect();
    while waiting.0.load(Ordering::Relaxed) < n {
        tokio::task::yield_now().await;
    }
    let start = now(w);
    drop(to);
    let closed = now(w);
    join_all(all).await;
    [closed - start, waiting.1.load(Ordering::Relaxed) - start, now(w) - start]
}

async fn closing(w: usize, n: usize, rounds: usize) {
    let mut sums = [0; 3];
    close_once(w, n).await;
    for _ in 0..rounds {
        for (sum, took) in sums.iter_mut().zip(close_once(w, n).await) {
            *sum += took;
        }
    }
    for (name, sum) in ["close", "awake", "over"].into_iter().zip(sums) {
        print(name, sum as f64 / rounds as f64 / 1e6, "ms");
    }
}

/// The scope of tokio: dropping the set aborts what is in it.
async fn empty_scope(w: usize, n: usize) {
    let mut start = 0;
    for i in 0..n / 10 + n {
        if i == n / 10 {
            start = now(w);
        }
        let mut set: JoinSet<()> = JoinSet::new();
        assert!(set.join_next().await.is_none());
    }
    print("time", (now(w) - start) as f64 / n as f64, "ns");
}

/// Runs when a task is dropped at its abort.
struct Guard<F: FnMut()>(F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// From the abort of a task to the drop of what it holds.
async fn cancelling(n: usize) {
    let returned = Arc::new(AtomicI64::new(0));
    let (mut to_return, mut to_join) = (vec![0; n], vec![0; n]);
    for i in 0..n / 10 + n {
        let stamp = returned.clone();
        let task = tokio::spawn(async move {
            let _guard = Guard(move || stamp.store(wall(), Ordering::Relaxed));
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        let start = wall();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        to_join[i % n] = wall() - start;
        to_return[i % n] = returned.load(Ordering::Relaxed) - start;
    }
    to_return.sort_unstable();
    to_join.sort_unstable();
    print("time", to_return[n / 2] as f64, "ns");
    print("p99", to_return[n / 100 * 99] as f64, "ns");
    print("joined", to_join[n / 2] as f64, "ns");
}

struct Tree {
    asleep: AtomicUsize,
    awake: AtomicI64,
    alive: AtomicUsize,
    over: Notify,
}

impl Tree {
    fn ends(&self) {
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.notify_one();
        }
    }
}

/// Each node holds its ten children in a set, which aborts them when it is dropped.
fn branch(tree: Arc<Tree>, below: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mine = tree.clone();
        let _end = Guard(move || mine.ends());
        if below == 0 {
            let mine = tree.clone();
            let _guard = Guard(move || {
                if mine.asleep.fetch_sub(1, Ordering::Relaxed) == 1 {
                    mine.awake.store(wall(), Ordering::Relaxed);
                }
            });
            tree.asleep.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        let mut set = JoinSet::new();
        for _ in 0..10 {
            tree.alive.fetch_add(1, Ordering::Relaxed);
            set.spawn(branch(tree.clone(), below / 10));
        }
        while set.join_next().await.is_some() {}
    })
}

async fn cancel_tree(n: usize) {
    let before = wall();
    let tree = Arc::new(Tree {
        asleep: AtomicUsize::new(0),
        awake: AtomicI64::new(0),
        alive: AtomicUsize::new(1),
        over: Notify::new(),
    });
    let top = tokio::spawn(branch(tree.clone(), n / 10));
    while tree.asleep.load(Ordering::Relaxed) < n {
        tokio::task::yield_now().await;
    }
    let start = wall();
    top.abort();
    let asked = wall();
    tree.over.notified().await;
    let joined = wall();
    print("create", (start - before) as f64 / 1e9, "s");
    print("call", (asked - start) as f64 / 1e9, "s");
    print("awake", (tree.awake.load(Ordering::Relaxed) - start) as f64 / 1e9, "s");
    print("joined", (joined - start) as f64 / 1e9, "s");
}

/// Asking an open semaphore is what costs a task of its share in tokio, as a checkpoint does.
async fn step(mut z: u64, ops: &Semaphore) -> u64 {
    for _ in 0..100 {
        z = (z ^ z >> 7).wrapping_mul(0x9e3779b97f4a7c15);
    }
    drop(ops.acquire().await.unwrap());
    z
}

/// Units of 256 steps, a yield after each; the hog only steps.
async fn behave_all(w: usize, n: usize, tasks: usize, with_hog: bool) -> Vec<i64> {
    let is_over = Arc::new(AtomicUsize::new(0));
    let hog_over = is_over.clone();
    let hog = tokio::spawn(async move {
        let ops = Semaphore::new(1);
        let mut z = 1;
        while with_hog && hog_over.load(Ordering::Relaxed) == 0 {
            z = step(z, &ops).await;
        }
        std::hint::black_box(z);
    });
    let mut all = Vec::new();
    for _ in 0..tasks {
        all.push(tokio::spawn(async move {
            let ops = Semaphore::new(1);
            let (mut mine, mut z, mut before) = (Vec::with_capacity(n), 1, now(w));
            for _ in 0..n {
                for _ in 0..256 {
                    z = step(z, &ops).await;
                }
                tokio::task::yield_now().await;
                let after = now(w);
                mine.push(after - before);
                before = after;
            }
            std::hint::black_box(z);
            mine
        }));
    }
    let mut latency = Vec::new();
    for one in all {
        latency.extend(one.await.unwrap());
    }
    is_over.store(1, Ordering::Relaxed);
    hog.await.unwrap();
    latency.sort_unstable();
    latency
}

async fn hogging(w: usize, n: usize, tasks: usize) {
    let alone = behave_all(w, n, tasks, false).await;
    let beside = behave_all(w, n, tasks, true).await;
    let (middle, high) = (alone.len() / 2, alone.len() / 100 * 99);
    print("alone_p50", alone[middle] as f64 / 1e3, "us");
    print("beside_p50", beside[middle] as f64 / 1e3, "us");
    print("ratio_p50", beside[middle] as f64 / alone[middle] as f64, "x");
    print("ratio_p99", beside[high] as f64 / alone[high] as f64, "x");
}

/// Serves peers/load until that kills it.
async fn echo_server() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    println!("port {}", listener.local_addr().unwrap().port());
    loop {
        let (mut conn, _) = listener.accept().await.unwrap();
        conn.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            let mut buf = [0u8; 1024];
            while let Ok(got) = conn.read(&mut buf).await {
                if got == 0 || conn.write_all(&buf[..got]).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn run(case: String, w: usize, n: usize, rounds: usize) {
    match case.as_str() {
        "yield" => yields(w, n, rounds).await,
        "spawn1" => spawn1(w, n).await,
        "batch" => batch(w, n, rounds).await,
        "parkwake" => ping_pong(w, n).await,
        "fib" => fork_join(w, n, rounds).await,
        "skynet" => skynet(w, n, rounds).await,
        "parked" => parked(w, n).await,
        "queued" => queued(w, n).await,
        "sleepers" => sleepers(n, rounds).await,
        "pingpong" => chan_ping(w, n).await,
        "crossping" => cross_ping(w, n).await,
        "chan" => buffered(w, n).await,
        "crossbuf" => cross_buffered(w, n).await,
        "ring" => ring_of(w, n, rounds).await,
        "select" => select_over(w, n, rounds).await,
        "mutex" => mutex(w, n, rounds, false).await,
        "mutexheld" => mutex(w, n, rounds, true).await,
        "chansky" => chan_skynet(w, n, rounds).await,
        "close" => closing(w, n, rounds).await,
        "nursery0" => empty_scope(w, n).await,
        "cancel" => cancelling(n).await,
        "canceltree" => cancel_tree(n).await,
        "hog" => hogging(w, n, rounds).await,
        "echo" => echo_server().await,
        other => {
            if !server::run(other, w, n, rounds).await {
                std::process::exit(2);
            }
        }
    }
}

/// The first task is spawned, so that everything runs on the workers and the main thread sleeps.
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<usize>().unwrap();
    let (w, n, rounds) = (number(2), number(3), number(4));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let case = args[1].clone();
    let near = if case.starts_with("cross") { 1 } else { w };
    if case == "echo" {
        builder.enable_io(); // only there: with it, idle workers sleep in the poll
    }
    let runtime = builder.worker_threads(near).enable_time().build().unwrap();
    runtime.block_on(async move { tokio::spawn(run(case, w, n, rounds)).await.unwrap() });
    runtime.shutdown_background();
}

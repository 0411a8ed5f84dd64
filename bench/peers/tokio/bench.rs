// SPDX-License-Identifier: MIT

//! The workloads of bench/README.md with tokio tasks: bench CASE WORKERS N ROUNDS.
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

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
        _ => std::process::exit(2),
    }
}

/// The first task is spawned, so that everything runs on the workers and the main thread sleeps.
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<usize>().unwrap();
    let (w, n, rounds) = (number(2), number(3), number(4));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(w).enable_time().build().unwrap();
    let case = args[1].clone();
    runtime.block_on(async move { tokio::spawn(run(case, w, n, rounds)).await.unwrap() });
    runtime.shutdown_background();
}

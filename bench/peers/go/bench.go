// SPDX-License-Identifier: MIT

// The workloads of bench/README.md written with goroutines: bench CASE WORKERS N ROUNDS.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var workers int

// clock reads a system clock in ns: 1 is CLOCK_MONOTONIC, 2 the CPU time of the process.
func clock(id uintptr) int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// now is CPU time with one worker and wall time with more.
func now() int64 {
	if workers == 1 {
		return clock(2)
	}
	return clock(1)
}

// memory is what the process occupies, page tables included.
func memory() int64 {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	var sum int64
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if fields[0] == "VmRSS:" || fields[0] == "VmPTE:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += kib * 1024
		}
	}
	return sum
}

func random(i uint64) uint64 {
	z := (i + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func yield(tasks, each int) {
	var all sync.WaitGroup
	all.Add(tasks)
	start := now()
	for i := 0; i < tasks; i++ {
		go func() {
			for k := 0; k < each; k++ {
				runtime.Gosched()
			}
			all.Done()
		}()
	}
	all.Wait()
	fmt.Println("time", float64(now()-start)/float64(tasks*each), "ns")
}

func spawn1(n int) {
	one := func() {
		var done sync.WaitGroup
		done.Add(1)
		go done.Done()
		done.Wait()
	}
	for i := 0; i < n/10; i++ {
		one()
	}
	start := now()
	for i := 0; i < n; i++ {
		one()
	}
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
}

func batch(n, rounds int) {
	var start int64
	for round := -1; round < rounds; round++ {
		if round == 0 {
			start = now()
		}
		var all sync.WaitGroup
		all.Add(n)
		for i := 0; i < n; i++ {
			go all.Done()
		}
		all.Wait()
	}
	fmt.Println("time", float64(now()-start)/float64(n*rounds), "ns")
}

// pingPong: every message of an unbuffered channel parks one side and wakes the other.
func pingPong(n int) {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v
		}
	}()
	var start int64
	for i := -n / 10; i < n; i++ {
		if i == 0 {
			start = now()
		}
		ping <- i
		<-pong
	}
	fmt.Println("time", float64(now()-start)/float64(2*n), "ns")
	close(ping)
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	var child sync.WaitGroup
	var left int
	child.Add(1)
	go func() {
		left = fib(n - 1)
		child.Done()
	}()
	right := fib(n - 2)
	child.Wait()
	return left + right
}

func forkJoin(n, rounds int) {
	a, b := 0, 1
	for i := 0; i < n; i++ {
		a, b = b, a+b
	}
	spawns := b - 1 // fib(n+1) - 1 calls are above the leaves, and each spawns once
	var start int64
	for round := -1; round < rounds; round++ {
		if round == 0 {
			start = now()
		}
		if fib(n) != a {
			panic("fib is wrong")
		}
	}
	fmt.Println("time", float64(now()-start)/float64(spawns*rounds), "ns")
}

func sky(first, size int) int {
	if size == 1 {
		return first
	}
	var children sync.WaitGroup
	var sums [10]int
	children.Add(10)
	for i := 0; i < 10; i++ {
		go func(i int) {
			sums[i] = sky(first+i*(size/10), size/10)
			children.Done()
		}(i)
	}
	children.Wait()
	sum := 0
	for _, s := range sums {
		sum += s
	}
	return sum
}

func skynet(n, rounds int) {
	var start int64
	for round := -1; round < rounds; round++ {
		if round == 0 {
			start = now()
		}
		if sky(0, n) != n*(n-1)/2 {
			panic("skynet is wrong")
		}
	}
	fmt.Println("time", float64(now()-start)/float64(rounds)/1e6, "ms")
}

func parked(n int) {
	var waiting int64
	var all sync.WaitGroup
	gate := make(chan struct{})
	all.Add(n)
	before := memory()
	start := now()
	for i := 0; i < n; i++ {
		go func() {
			atomic.AddInt64(&waiting, 1)
			<-gate
			all.Done()
		}()
	}
	for atomic.LoadInt64(&waiting) < int64(n) {
		runtime.Gosched()
	}
	runtime.Gosched()
	fmt.Println("create", float64(now()-start)/1e9, "s")
	fmt.Println("memory", float64(memory()-before)/float64(n), "B")
	start = now()
	close(gate)
	all.Wait()
	fmt.Println("wake", float64(now()-start)/1e9, "s")
}

func sleepers(n, spanMs int) {
	late := make([]int64, n)
	for i := range late {
		late[i] = -1
	}
	var all sync.WaitGroup
	all.Add(n)
	start := clock(2)
	for i := 0; i < n; i++ {
		go func(i int) {
			span := int64(random(uint64(i)) % uint64(spanMs*1000000))
			deadline := clock(1) + span
			time.Sleep(time.Duration(span))
			late[i] = clock(1) - deadline
			all.Done()
		}(i)
	}
	all.Wait()
	fmt.Println("cpu", float64(clock(2)-start)/1e9, "s")
	sort.Slice(late, func(a, b int) bool { return late[a] < late[b] })
	fmt.Println("late_p50", float64(late[n/2])/1e6, "ms")
	fmt.Println("late_p99", float64(late[n/100*99])/1e6, "ms")
}

func main() {
	number := func(i int) int {
		v, err := strconv.Atoi(os.Args[i])
		if err != nil {
			panic(err)
		}
		return v
	}
	workers = number(2)
	runtime.GOMAXPROCS(workers)
	n, rounds := number(3), number(4)
	switch os.Args[1] {
	case "yield":
		yield(n, rounds)
	case "spawn1":
		spawn1(n)
	case "batch":
		batch(n, rounds)
	case "parkwake":
		pingPong(n)
	case "fib":
		forkJoin(n, rounds)
	case "skynet":
		skynet(n, rounds)
	case "parked":
		parked(n)
	case "sleepers":
		sleepers(n, rounds)
	default:
		os.Exit(2)
	}
}

// SPDX-License-Identifier: MIT

// The workloads of bench/README.md written with goroutines: bench CASE WORKERS N ROUNDS.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
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

// pin keeps the goroutine on a thread of its own when a case forces two sides apart.
func pin(isForced bool) {
	if isForced {
		runtime.LockOSThread()
	}
}

// chanPing is pingPong, each side on a thread of its own when forced.
func chanPing(n int, isForced bool) {
	ping, pong := make(chan int), make(chan int)
	go func() {
		pin(isForced)
		for v := range ping {
			pong <- v
		}
	}()
	pin(isForced)
	var start int64
	for i := -n / 10; i < n; i++ {
		if i == 0 {
			start = now()
		}
		ping <- i
		if <-pong != i {
			panic("wrong item")
		}
	}
	fmt.Println("time", float64(now()-start)/float64(2*n), "ns")
	close(ping)
}

// pour passes n items from so many senders to as many receivers.
func pour(n, pairs int) {
	buffer := make(chan int, 128)
	var senders, receivers sync.WaitGroup
	var received int64
	each := n / pairs
	senders.Add(pairs)
	receivers.Add(pairs)
	for i := 0; i < pairs; i++ {
		go func() {
			sum := 0
			for v := range buffer {
				sum += v
			}
			atomic.AddInt64(&received, int64(sum))
			receivers.Done()
		}()
		go func() {
			for k := 0; k < each; k++ {
				buffer <- k
			}
			senders.Done()
		}()
	}
	senders.Wait()
	close(buffer)
	receivers.Wait()
	if received != int64(pairs*(each*(each-1)/2)) {
		panic("items are lost or come twice")
	}
}

func buffered(n, pairs int) {
	pour(n/10, pairs)
	start := now()
	pour(n, pairs)
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
}

func crossBuffered(n int) {
	buffer := make(chan int, 128)
	warm := n / 10
	go func() {
		pin(true)
		for i := 0; i < warm+n; i++ {
			buffer <- i
		}
		close(buffer)
	}()
	pin(true)
	var start int64
	count := 0
	for range buffer {
		if count == warm {
			start = now()
		}
		count++
	}
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
	if count != warm+n {
		panic("items are lost or come twice")
	}
}

// goRound sends a token round so many channels; returns how long it took.
func goRound(ring []chan int, finish chan int, laps int) int64 {
	for i := range ring {
		go func(i int) {
			isLast := i == len(ring)-1
			from, to := ring[i], ring[(i+1)%len(ring)]
			for lap := 1; lap <= laps; lap++ {
				token := <-from
				if isLast && lap == laps {
					finish <- token + 1
				} else {
					to <- token + 1
				}
			}
		}(i)
	}
	runtime.Gosched()
	start := now()
	ring[0] <- 0
	if <-finish != laps*len(ring) {
		panic("the token is wrong")
	}
	return now() - start
}

func ringOf(n, laps int) {
	ring, finish := make([]chan int, n), make(chan int)
	for i := range ring {
		ring[i] = make(chan int)
	}
	goRound(ring, finish, laps/10+1)
	fmt.Println("time", float64(goRound(ring, finish, laps))/float64(n*laps), "ns")
}

func selects2(c []chan int, first, count int) {
	for i := first; i < first+count; i++ {
		var v, at int
		select {
		case v = <-c[0]:
			at = 0
		case v = <-c[1]:
			at = 1
		}
		if v != i || at != i%2 {
			panic("wrong item")
		}
	}
}

func selects8(c []chan int, first, count int) {
	for i := first; i < first+count; i++ {
		var v, at int
		select {
		case v = <-c[0]:
			at = 0
		case v = <-c[1]:
			at = 1
		case v = <-c[2]:
			at = 2
		case v = <-c[3]:
			at = 3
		case v = <-c[4]:
			at = 4
		case v = <-c[5]:
			at = 5
		case v = <-c[6]:
			at = 6
		case v = <-c[7]:
			at = 7
		}
		if v != i || at != i%8 {
			panic("wrong item")
		}
	}
}

// selectOver: one side sends to k channels in turn, the other selects over all of them.
func selectOver(n, k int) {
	chans := make([]chan int, k)
	for i := range chans {
		chans[i] = make(chan int)
	}
	go func() {
		at := 0
		for i := 0; i < n/10+n; i++ {
			chans[at] <- i
			if at++; at == k {
				at = 0
			}
		}
	}()
	selects := selects2
	if k == 8 {
		selects = selects8
	}
	selects(chans, 0, n/10)
	start := now()
	selects(chans, n/10, n)
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
}

// lockAll: so many goroutines lock one mutex so often each, and let others run while they hold it.
func lockAll(tasks, each int, yields bool) {
	var mutex sync.Mutex
	var all sync.WaitGroup
	sum := 0
	all.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			for k := 0; k < each; k++ {
				mutex.Lock()
				sum++
				if yields {
					runtime.Gosched()
				}
				mutex.Unlock()
			}
			all.Done()
		}()
	}
	all.Wait()
	if sum != tasks*each {
		panic("two held it at once")
	}
}

func mutex(n, tasks int, yields bool) {
	each := n / tasks
	lockAll(tasks, each/10, yields)
	start := now()
	lockAll(tasks, each, yields)
	fmt.Println("time", float64(now()-start)/float64(tasks*each), "ns")
}

func chanSky(first, size int, up chan int) {
	if size == 1 {
		up <- first
		return
	}
	sums := make(chan int)
	sum := 0
	for i := 0; i < 10; i++ {
		go chanSky(first+i*(size/10), size/10, sums)
	}
	for i := 0; i < 10; i++ {
		sum += <-sums
	}
	up <- sum
}

func chanSkynet(n, rounds int) {
	var start int64
	top := make(chan int)
	for round := -1; round < rounds; round++ {
		if round == 0 {
			start = now()
		}
		go chanSky(0, n, top)
		if <-top != n*(n-1)/2 {
			panic("skynet is wrong")
		}
	}
	fmt.Println("time", float64(now()-start)/float64(rounds)/1e6, "ms")
}

// closeOnce returns how long the close took, until the last receiver was awake, until all was over.
func closeOnce(n int) [3]int64 {
	var waiting, awake int64
	var all sync.WaitGroup
	c := make(chan int)
	all.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			atomic.AddInt64(&waiting, 1)
			<-c
			if atomic.AddInt64(&waiting, -1) == 0 {
				awake = now()
			}
			all.Done()
		}()
	}
	for atomic.LoadInt64(&waiting) < int64(n) {
		runtime.Gosched()
	}
	runtime.Gosched()
	start := now()
	close(c)
	closed := now()
	all.Wait()
	return [3]int64{closed - start, awake - start, now() - start}
}

func closing(n, rounds int) {
	var sums [3]float64
	closeOnce(n)
	for i := 0; i < rounds; i++ {
		for k, took := range closeOnce(n) {
			sums[k] += float64(took) / 1e6 / float64(rounds)
		}
	}
	fmt.Println("close", sums[0], "ms")
	fmt.Println("awake", sums[1], "ms")
	fmt.Println("over", sums[2], "ms")
}

// emptyScope: what a scope with cancellation and a join is made of in Go.
func emptyScope(n int) {
	var start int64
	parent := context.Background()
	for i := -n / 10; i < n; i++ {
		if i == 0 {
			start = now()
		}
		var children sync.WaitGroup
		_, cancel := context.WithCancel(parent)
		children.Wait()
		cancel()
	}
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
}

// checkpoint: whether one was asked to stop; the scheduler takes the turn without being asked.
func checkpoint(n int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var start int64
	for i := -n / 10; i < n; i++ {
		if i == 0 {
			start = now()
		}
		if ctx.Err() != nil {
			panic("cancelled")
		}
	}
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
}

var cleanups int

//go:noinline
func cleanup(by *int) {
	cleanups += *by
}

//go:noinline
func defers16(by *int) {
	for i := 0; i < 16; i++ {
		defer cleanup(by)
	}
}

//go:noinline
func defers1(by *int) {
	defer cleanup(by)
}

func deferred(n int) {
	one := 1
	measure := func(name string, count, each int, f func(*int)) {
		for i := 0; i < count/10; i += each {
			f(&one)
		}
		start := now()
		for i := 0; i < count; i += each {
			f(&one)
		}
		fmt.Println(name, float64(now()-start)/float64(count), "ns")
	}
	measure("time", n, 16, defers16)
	measure("scoped", n, 1, defers1)
}

// cancelling: from the cancel of a context to the end of the goroutine that waits for it.
func cancelling(n int) {
	toReturn, toJoin := make([]int64, n), make([]int64, n)
	one := func(i int) {
		var returned int64
		var child sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		child.Add(1)
		go func() {
			defer child.Done()
			<-ctx.Done()
			returned = clock(1)
		}()
		runtime.Gosched()
		start := clock(1)
		cancel()
		child.Wait()
		toJoin[i] = clock(1) - start
		toReturn[i] = returned - start
	}
	for i := 0; i < n/10; i++ {
		one(i)
	}
	for i := 0; i < n; i++ {
		one(i)
	}
	sort.Slice(toReturn, func(a, b int) bool { return toReturn[a] < toReturn[b] })
	sort.Slice(toJoin, func(a, b int) bool { return toJoin[a] < toJoin[b] })
	fmt.Println("time", toReturn[n/2], "ns")
	fmt.Println("p99", toReturn[n/100*99], "ns")
	fmt.Println("joined", toJoin[n/2], "ns")
}

var asleep, lastAwake int64

// branch: a context for each node, ten children below it, a wait group to join them.
func branch(ctx context.Context, below int, done *sync.WaitGroup) {
	defer done.Done()
	if below == 0 {
		atomic.AddInt64(&asleep, 1)
		<-ctx.Done()
		if atomic.AddInt64(&asleep, -1) == 0 {
			lastAwake = clock(1)
		}
		return
	}
	var children sync.WaitGroup
	mine, cancel := context.WithCancel(ctx)
	children.Add(10)
	for i := 0; i < 10; i++ {
		go branch(mine, below/10, &children)
	}
	children.Wait()
	cancel()
}

func cancelTree(n int) {
	before := clock(1)
	var top sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	top.Add(1)
	go branch(ctx, n/10, &top)
	for atomic.LoadInt64(&asleep) < int64(n) {
		runtime.Gosched()
	}
	runtime.Gosched()
	start := clock(1)
	cancel()
	asked := clock(1)
	top.Wait()
	joined := clock(1)
	fmt.Println("create", float64(start-before)/1e9, "s")
	fmt.Println("call", float64(asked-start)/1e9, "s")
	fmt.Println("awake", float64(lastAwake-start)/1e9, "s")
	fmt.Println("joined", float64(joined-start)/1e9, "s")
}

var left uint64

func step(z uint64) uint64 {
	for i := 0; i < 100; i++ {
		z = (z ^ z>>7) * 0x9e3779b97f4a7c15
	}
	return z
}

// behaveAll: units of 256 steps, a yield after each; the hog only steps.
func behaveAll(n, tasks int, withHog bool) []int64 {
	latency := make([]int64, n*tasks)
	var all, hog sync.WaitGroup
	var isOver int32
	if withHog {
		hog.Add(1)
		go func() {
			z := uint64(1)
			for atomic.LoadInt32(&isOver) == 0 {
				z = step(z)
			}
			atomic.StoreUint64(&left, z)
			hog.Done()
		}()
	}
	all.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func(mine []int64) {
			z := uint64(1)
			before := now()
			for i := range mine {
				for k := 0; k < 256; k++ {
					z = step(z)
				}
				runtime.Gosched()
				after := now()
				mine[i] = after - before
				before = after
			}
			atomic.StoreUint64(&left, z)
			all.Done()
		}(latency[i*n : (i+1)*n])
	}
	all.Wait()
	atomic.StoreInt32(&isOver, 1)
	hog.Wait()
	sort.Slice(latency, func(a, b int) bool { return latency[a] < latency[b] })
	return latency
}

func hogging(n, tasks int) {
	count := n * tasks
	alone := behaveAll(n, tasks, false)
	beside := behaveAll(n, tasks, true)
	fmt.Println("alone_p50", float64(alone[count/2])/1e3, "us")
	fmt.Println("beside_p50", float64(beside[count/2])/1e3, "us")
	fmt.Println("ratio_p50", float64(beside[count/2])/float64(alone[count/2]), "x")
	at := count / 100 * 99
	fmt.Println("ratio_p99", float64(beside[at])/float64(alone[at]), "x")
}

// echoServer serves peers/load until that kills it.
func echoServer() {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			buf := make([]byte, 1024)
			for {
				n, err := conn.Read(buf)
				if err == nil {
					_, err = conn.Write(buf[:n])
				}
				if err != nil {
					conn.Close()
					return
				}
			}
		}()
	}
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
	case "pingpong":
		chanPing(n, false)
	case "crossping":
		chanPing(n, true)
	case "chan":
		buffered(n, rounds)
	case "crossbuf":
		crossBuffered(n)
	case "ring":
		ringOf(n, rounds)
	case "select":
		selectOver(n, rounds)
	case "mutex":
		mutex(n, rounds, false)
	case "mutexheld":
		mutex(n, rounds, true)
	case "chansky":
		chanSkynet(n, rounds)
	case "close":
		closing(n, rounds)
	case "nursery0":
		emptyScope(n)
	case "checkpoint":
		checkpoint(n)
	case "defer":
		deferred(n)
	case "cancel":
		cancelling(n)
	case "canceltree":
		cancelTree(n)
	case "hog":
		hogging(n, rounds)
	case "echo":
		echoServer()
	default:
		if !serverCase(os.Args[1], n, rounds) {
			os.Exit(2)
		}
	}
}

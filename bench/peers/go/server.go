// SPDX-License-Identifier: MIT

// The workloads with servers: goroutines that own their state and are asked through a channel.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	mailbox = 1024
	stride  = 7919
)

// request is a call when it has a reply channel and a cast otherwise.
type request struct {
	value int64
	reply chan int64
}

// serve answers a number with the next one, 0 with the sum of what was cast.
func serve(requests <-chan request) {
	var sum int64
	for r := range requests {
		switch {
		case r.reply == nil:
			sum += r.value
		case r.value == 0:
			r.reply <- sum
		default:
			r.reply <- r.value + 1
		}
	}
}

// call makes a channel for its reply, as a call that may be given up must: a reply that comes late
// is then not taken for that of the next call, and the buffer lets the server go on.
func call(server chan<- request, value int64) int64 {
	reply := make(chan int64, 1)
	server <- request{value, reply}
	return <-reply
}

// printEach says what each of n took since then, by the clock and of the CPUs.
func printEach(n int, start, cpu int64) {
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
	fmt.Println("cpu", float64(clock(2)-cpu)/float64(n), "ns")
}

func calls(server chan<- request, n int) {
	for i := 1; i <= n; i++ {
		if call(server, int64(i)) != int64(i)+1 {
			panic("wrong reply")
		}
	}
}

// callAll makes n calls in all, from as many clients as there are servers in the list.
func callAll(n int, servers []chan request) {
	if len(servers) == 1 {
		calls(servers[0], n)
		return
	}
	var all sync.WaitGroup
	all.Add(len(servers))
	for _, server := range servers {
		go func(server chan<- request) {
			calls(server, n/len(servers))
			all.Done()
		}(server)
	}
	all.Wait()
}

func timeCalls(n int, servers []chan request) {
	callAll(n/10, servers)
	cpu, start := clock(2), now()
	callAll(n, servers)
	printEach(n, start, cpu)
}

func callOne(n, clients int) {
	server := make(chan request)
	go serve(server)
	servers := make([]chan request, clients)
	for i := range servers {
		servers[i] = server
	}
	timeCalls(n, servers)
}

func callPairs(n, pairs int) {
	servers := make([]chan request, pairs)
	for i := range servers {
		servers[i] = make(chan request)
		go serve(servers[i])
	}
	timeCalls(n, servers)
}

// castAll casts n times in all; each sender ends with a call, so that all its casts are done.
func castAll(n, senders int, server chan<- request) {
	var all sync.WaitGroup
	all.Add(senders)
	for i := 0; i < senders; i++ {
		go func() {
			for k := 0; k < n/senders; k++ {
				server <- request{value: 1}
			}
			call(server, 0)
			all.Done()
		}()
	}
	all.Wait()
}

func casting(n, senders int) {
	server := make(chan request, mailbox)
	go serve(server)
	castAll(n/10, senders, server)
	cpu, start := clock(2), now()
	castAll(n, senders, server)
	printEach(n, start, cpu)
	if call(server, 0) != int64(n/senders*senders+n/10/senders*senders) {
		panic("casts are lost")
	}
}

// handle is what the starter of a server keeps: where to ask, and how to know that it is over.
type handle struct {
	requests chan request
	over     chan struct{}
}

func startServer() handle {
	h := handle{make(chan request), make(chan struct{})}
	go func() {
		serve(h.requests)
		close(h.over)
	}()
	return h
}

func (h handle) stop() {
	close(h.requests)
	<-h.over
}

func serverStart(n int) {
	var start int64
	for i := -n / 10; i < n; i++ {
		if i == 0 {
			start = now()
		}
		startServer().stop()
	}
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
}

func serverAlive(n int) {
	servers := make([]handle, n)
	before, start := memory(), now()
	for i := range servers {
		servers[i] = startServer()
	}
	fmt.Println("start", float64(now()-start)/float64(n), "ns")
	for _, server := range servers {
		call(server.requests, 1)
	}
	fmt.Println("memory", float64(memory()-before)/float64(n), "B")
	start = now()
	for _, server := range servers {
		server.stop()
	}
	fmt.Println("stop", float64(now()-start)/float64(n), "ns")
}

// monitoring: a goroutine is known to be over by the channel that it closes; how it ended nobody
// learns unless it says so.
func monitoring(n int) {
	var start int64
	for i := -n / 10; i < n; i++ {
		if i == 0 {
			start = now()
		}
		over := make(chan struct{})
		go func() { close(over) }()
		<-over
	}
	fmt.Println("time", float64(now()-start)/float64(n), "ns")
}

func watchAll(n int) {
	var all sync.WaitGroup
	var watching int64
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		<-stop
		close(over)
	}()
	all.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			atomic.AddInt64(&watching, 1)
			<-over
			all.Done()
		}()
	}
	for atomic.LoadInt64(&watching) < int64(n) {
		runtime.Gosched()
	}
	close(stop)
	all.Wait()
}

func watched(n, rounds int) {
	watchAll(n)
	start := now()
	for i := 0; i < rounds; i++ {
		watchAll(n)
	}
	fmt.Println("time", float64(now()-start)/float64(n*rounds), "ns")
}

// whereis: names and the servers that have them in a map for many readers.
func whereis(n, count int) {
	var registry sync.Map
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("service.%05d", i)
		registry.Store(names[i], make(chan request))
	}
	find := func(times int) {
		var all sync.WaitGroup
		all.Add(workers)
		for w := 0; w < workers; w++ {
			go func(at int) {
				for i := 0; i < times/workers; i++ {
					found, ok := registry.Load(names[at])
					if !ok || found.(chan request) == nil {
						panic("no such name")
					}
					at = (at + stride) % count
				}
				all.Done()
			}(w)
		}
		all.Wait()
	}
	find(n / 10)
	cpu, start := clock(2), now()
	find(n)
	printEach(n, start, cpu)
}

// serverCase runs one of the cases above; false: there is none of this name.
func serverCase(name string, n, rounds int) bool {
	switch name {
	case "call":
		callOne(n, rounds)
	case "callpairs":
		callPairs(n, rounds)
	case "cast":
		casting(n, rounds)
	case "serverstart":
		serverStart(n)
	case "serveralive":
		serverAlive(n)
	case "monitor":
		monitoring(n)
	case "watched":
		watched(n, rounds)
	case "whereis":
		whereis(n, rounds)
	default:
		return false
	}
	return true
}

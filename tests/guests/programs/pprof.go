// Go's own profiler beside ours: goroutines on all threads, preemption, a child, and whether pprof's samples are there.
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func main() {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	var all sync.WaitGroup
	sums := make([]int, 8)
	for i := range sums {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			sums[i] = fib(33 + i%2)
		}(i)
	}
	all.Wait()
	fmt.Println("sums", sums)
	results := make(chan [32]byte)
	for i := 0; i < 200; i++ {
		go func(i int) { results <- sha256.Sum256(bytes.Repeat([]byte{byte(i)}, 100000)) }(i)
	}
	var mixed byte
	for i := 0; i < 200; i++ {
		digest := <-results
		mixed ^= digest[0]
	}
	fmt.Println("mixed", mixed)
	stop := time.Now().Add(300 * time.Millisecond)
	spins := 0
	go func() {
		for {
			spins++
		}
	}()
	for time.Now().Before(stop) {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("a loop without calls was preempted", spins > 0)
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGUSR1)
	syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
	fmt.Println("heard", <-heard)
	out, err := exec.Command("echo", "from a child").Output()
	fmt.Print(string(out), err, "\n")
	func() {
		defer func() { fmt.Println("recovered", recover()) }()
		var nothing *int
		*nothing = 1
	}()
	pprof.StopCPUProfile()
	fmt.Println("pprof has samples", profile.Len() > 300)
}

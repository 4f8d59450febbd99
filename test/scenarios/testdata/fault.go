// Package fault is put into a build of the program for tests only, by the go
// command's -overlay: it kills the process after one of its operations on files
// and API servers. The product has no such thing.
package fault

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

var (
	mu   sync.Mutex
	done int
)

// after counts an operation, writes it down, and dies if it is the one.
func after(what string) {
	log, at := os.Getenv("FAULT_LOG"), os.Getenv("FAULT_AT")
	if log == "" || len(os.Args) < 2 || !slices.Contains([]string{"enroll", "join"}, os.Args[1]) {
		return // the agent and its workers live
	}
	mu.Lock()
	defer mu.Unlock()
	done++
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, done, what)
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
	if n, _ := strconv.Atoi(at); n == done {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// Rename is [os.Rename].
func Rename(from, to string) error {
	err := os.Rename(from, to)
	after("write " + to)
	return err
}

type transport struct{ next http.RoundTripper }

// Wrap counts the calls to an API server, when they are answered.
func Wrap(next http.RoundTripper) http.RoundTripper { return transport{next} }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	after(r.Method + " " + r.URL.Path)
	return resp, err
}

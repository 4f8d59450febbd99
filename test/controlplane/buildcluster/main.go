// Command buildcluster builds the control plane that tests run on, unless it is
// built already, and shows how far it is:
//
//	go run ./test/controlplane/buildcluster          what tests and the trial use
//	go run ./test/controlplane/buildcluster -whole   what measurements use
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	whole := flag.Bool("whole", false, "with optimizations and the whole controller manager")
	flag.Parse()
	build := controlplane.Build
	if *whole {
		build = controlplane.BuildWhole
	}
	bin, err := build(ctx, report(5*time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		stop()
		os.Exit(1)
	}
	fmt.Println("control plane:", bin)
}

// report returns a progress callback that prints a line at most every interval.
func report(interval time.Duration) controlplane.Progress {
	var last time.Time
	fmt.Println("control plane: looking for what is to build; the first build takes minutes")
	return func(at controlplane.Stage, done, total int) {
		if total == 0 || done < total && time.Since(last) < interval {
			return
		}
		last = time.Now()
		fmt.Printf("control plane: %s, %d/%d\n", at, done, total)
	}
}

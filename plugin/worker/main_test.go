package worker

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/test/vcard"
)

const pin = "847261"

// TestMain is also the worker process.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" && os.Args[2] == "worker" {
		if err := workerMain(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(vcard.Main(m))
}

func workerMain() error {
	control, err := child.Control()
	if err != nil {
		return err
	}
	h := NewHost()
	return h.Serve(context.Background(), testDrivers(h), control)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

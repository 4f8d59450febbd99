package process

import (
	"os"
	"testing"
)

func TestParent(t *testing.T) {
	p := Parent()
	if p.PID != os.Getppid() || !p.Alive() {
		t.Fatalf("%+v", p)
	}
	if p.Known() && (ID{PID: p.PID, Start: p.Start + 1}).Alive() {
		t.Fatal("another process of that PID counts as the same")
	}
	if this := This(); this.PID != os.Getpid() || this == p {
		t.Fatalf("%+v", this)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package process

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

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

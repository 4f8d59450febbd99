package audit

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullDisk: a record that does not fit is taken back as a whole, and what another
// process has added meanwhile stays.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	check(t, l.Write(Record{Event: AgentStart}))
	other := open(t, path) // of a program that ends an agent which does not answer
	check(t, other.Write(Record{Event: Policy}))
	check(t, l.Write(Record{Event: Lock}))
	info, err := l.f.Stat()
	check(t, err)
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(info.Size()) + 10, Max: limit.Max}))
	err = l.Write(Record{Event: Unlock})
	check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	if err == nil {
		t.Fatal("it fits")
	}
	check(t, l.Write(Record{Event: AgentStop}))
	got, damaged := read(t, path, Filter{})
	if len(got) != 4 || damaged != 0 || got[1].Event != Policy || got[2].Event != Lock || got[3].Event != AgentStop {
		t.Errorf("%+v, %d damaged", got, damaged)
	}
}

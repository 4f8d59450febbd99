package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
	testpoll "github.com/kubehsm/kubehsm/test/poll"
)

var check = need.NoError

func open(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path)
	check(t, err)
	t.Cleanup(func() { check(t, l.Close()) })
	return l
}

func read(t *testing.T, path string, f Filter) ([]Record, int) {
	t.Helper()
	var all []Record
	damaged, err := Read(context.Background(), path, f, func(r Record) error {
		all = append(all, r)
		return nil
	})
	check(t, err)
	return all, damaged
}

// The names of the fields are what other people's programs read.
func TestFieldNames(t *testing.T) {
	r := Record{Time: time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("x", 3600)), Event: Signature, Outcome: Refused,
		Reason: "sign-in",
		Error:  "pin-incorrect", Code: 401, Count: 2, Enrollment: "prod", Server: "h:6443", Key: "ab",
		Token:   hsm.URI{Scheme: "pkcs11", Token: "t"},
		PIN:     true,
		Request: "delete nodes n", Statement: "s", Signature: []byte{1}, Client: &Process{7, "kubectl"}, Agent: 8,
		Version: "v1"}
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	check(t, l.Write(r))
	check(t, l.Write(Record{Event: AgentStop}))
	b, err := os.ReadFile(path)
	check(t, err)
	first, second, _ := strings.Cut(string(b), "\n")
	if want := `{"time":"2026-01-02T02:04:05.000006Z","event":"signature","outcome":"refused","reason":"sign-in","error":"pin-incorrect","code":401,"count":2,` +
		`"enrollment":"prod","server":"h:6443","key":"ab","token":"pkcs11:token=t","pin":true,"request":"delete nodes n","statement":"s","signature":"AQ==","client":{"pid":7,"command":"kubectl"},"agent":8,"version":"v1"}`; first != want {
		t.Errorf("%s\nwant %s", first, want)
	}
	var bare map[string]any
	check(t, json.Unmarshal([]byte(second), &bare))
	if len(bare) != 2 || bare["event"] != "agent-stop" || bare["time"] == "" {
		t.Errorf("%s", second)
	}
	got, _ := read(t, path, Filter{})
	if len(got) != 2 || got[0].Token.Token != "t" || *got[0].Client != *r.Client || got[0].Agent != 8 {
		t.Errorf("%+v", got)
	}
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	l.maxSize, l.keep = 1000, 3
	for i := range 100 {
		check(t, l.Write(Record{Event: Session, Code: i}))
	}
	files, err := filepath.Glob(path + "*")
	check(t, err)
	if len(files) != 4 {
		t.Fatalf("%v", files)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		check(t, err)
		if info.Mode().Perm() != 0o600 || info.Size() > 1000 {
			t.Errorf("%s: %v, %d bytes", f, info.Mode(), info.Size())
		}
	}
	got, damaged := read(t, path, Filter{})
	if damaged != 0 || len(got) < 30 || got[len(got)-1].Code != 99 {
		t.Fatalf("%d records, %d damaged", len(got), damaged)
	}
	for i, r := range got {
		if r.Code != 100-len(got)+i {
			t.Fatalf("record %d is %d", i, r.Code)
		}
	}
}

func TestFilter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	now := time.Now()
	for i, name := range []string{"a", "b", "a", ""} {
		check(t, l.Write(Record{Event: Session, Enrollment: name, Time: now.Add(time.Duration(i) * time.Minute)}))
	}
	for _, c := range []struct {
		f    Filter
		want int
	}{{Filter{}, 4}, {Filter{Enrollment: "a"}, 2}, {Filter{Since: now.Add(time.Second)}, 3},
		{Filter{Since: now.Add(time.Second), Enrollment: "a"}, 1}, {Filter{Enrollment: "c"}, 0}} {
		if got, _ := read(t, path, c.f); len(got) != c.want {
			t.Errorf("%+v: %d records", c.f, len(got))
		}
	}
	if got, _ := read(t, path+".none", Filter{}); got != nil {
		t.Error(got)
	}
	stop := errors.New("enough")
	if _, err := Read(context.Background(), path, Filter{}, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// A crash, or a full disk, leaves half a line: neither what was before nor what
// comes after it is lost.
func TestHalfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	half := `{"time":"2026-01-02T02:04:05Z","event":"unlock"}` + "\n" + `{"time":"2026-01-0`
	check(t, os.WriteFile(path, []byte(half), 0o644))
	l := open(t, path)
	check(t, l.Write(Record{Event: Lock}))
	_, err := l.f.WriteString(strings.Repeat("x", 3*maxLine) + "\n\n{}\n")
	check(t, err)
	check(t, l.Write(Record{Event: AgentStop}))
	got, damaged := read(t, path, Filter{})
	if len(got) != 3 || damaged != 3 || got[0].Event != Unlock || got[1].Event != Lock || got[2].Event != AgentStop {
		t.Fatalf("%+v, %d damaged", got, damaged)
	}
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Error(info.Mode())
	}
}

func TestOpenToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, os.Chmod(path, 0o666))
	if _, err := Open(path); !errors.Is(err, home.ErrUnsafe) {
		t.Fatal(err)
	}
}

func TestRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	now := time.Now()
	l.now = func() time.Time { return now }
	for range 1000 {
		check(t, l.Repeated(Record{Event: Denial, Code: 401, Reason: "x"}))
		check(t, l.Repeated(Record{Event: Denial, Code: 401, Reason: "y"}))
	}
	if got, _ := read(t, path, Filter{}); len(got) != 2 {
		t.Fatalf("%d records", len(got))
	}
	check(t, l.Flush())
	now = now.Add(repeatWindow)
	check(t, l.Flush())
	check(t, l.Flush())
	got, _ := read(t, path, Filter{})
	if len(got) != 4 || got[2].Count != 999 || got[3].Count != 999 || got[2].Reason == got[3].Reason {
		t.Fatalf("%+v", got)
	}
	check(t, l.Repeated(Record{Event: Denial, Code: 401, Reason: "x"}))
	check(t, l.Repeated(Record{Event: Denial, Code: 401, Reason: "x"}))
	check(t, l.Close()) // writes the second one, which stands for itself
	if got, _ = read(t, path, Filter{}); len(got) != 6 || got[5].Count != 0 {
		t.Fatalf("%+v", got)
	}
}

// However many kinds there are, memory and file stay small.
func TestManyKinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	for i := range 10 * maxWindows {
		check(t, l.Repeated(Record{Event: Denial, Reason: fmt.Sprint(i)}))
	}
	if got, _ := read(t, path, Filter{}); len(got) != maxWindows+1 || len(l.repeats) != maxWindows+1 {
		t.Fatalf("%d records, %d windows", len(got), len(l.repeats))
	}
}

// Follow sees every record once and in order, across rotations.
func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const n = 200
	var mu sync.Mutex
	var got []int
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
	done := make(chan error, 1)
	go func() {
		damaged, err := Read(ctx, path, Filter{Follow: true}, func(r Record) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r.Code)
			return nil
		})
		if damaged != 0 {
			err = errors.Join(err, fmt.Errorf("%d damaged", damaged))
		}
		done <- err
	}()
	l := open(t, path) // created after the reader began
	l.maxSize = 3000
	for i := range n {
		check(t, l.Write(Record{Event: Session, Code: i}))
		if i%50 == 49 { // fewer than what is kept
			testpoll.Until(t, fmt.Sprintf("%d have come", i+1), func() bool { return count() > i })
		}
	}
	cancel()
	check(t, <-done)
	if len(got) != n || !slices.IsSorted(got) || got[n-1] != n-1 {
		t.Fatalf("%v", got)
	}
	if _, err := os.Stat(numbered(path, 2)); err != nil {
		t.Errorf("nothing was rotated: %v", err)
	}
}

//go:build unix

package tui

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/must"
)

func TestKeepStderr(t *testing.T) {
	for _, show := range []bool{false, true} {
		r, w, err := os.Pipe()
		must.OK(t, err)
		own, err := unix.Dup(2)
		must.OK(t, err)
		must.OK(t, redirect(int(w.Fd()), 2))
		restore, err := keepStderr()
		if err == nil {
			_, err = unix.Write(2, []byte("a library's noise\n")) // C code too writes past os.Stderr
		}
		if err == nil {
			err = restore(show)
		}
		if err == nil {
			_, err = unix.Write(2, []byte("afterwards\n"))
		}
		if rerr := redirect(own, 2); rerr != nil || unix.Close(own) != nil || w.Close() != nil {
			t.Fatal("standard error is lost: ", rerr)
		}
		must.OK(t, err)
		got, err := io.ReadAll(r)
		must.OK(t, err)
		want := "afterwards\n"
		if show {
			want = "a library's noise\n" + want
		}
		if string(got) != want {
			t.Errorf("show %v: got %q, want %q", show, got, want)
		}
		r.Close()
	}
}

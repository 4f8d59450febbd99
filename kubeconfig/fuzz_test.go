package kubeconfig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

func seeds(f *testing.F) {
	for _, c := range shapes {
		f.Add([]byte(c.text))
	}
	for _, text := range flowShapes {
		f.Add([]byte(text))
	}
	f.Add(big(3, 8))
	f.Add([]byte("users:\n- name: a\n  user: {}\n- # c\n  name: b\nclusters:\n  - name: x # y\n    cluster:\n      a: |\n\n        # z\n      b: 'q' # r\n"))
}

// FuzzSplice adds, changes and removes an entry in any text that clientcmd
// reads: it works and changes nothing else, or it is refused by name.
func FuzzSplice(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := decode(data); err != nil {
			return
		}
		path := filepath.Join(folder(t), "config")
		must.OK(t, os.WriteFile(path, data, 0o600))
		r := Rules{Explicit: path}
		p, err := r.Plan(context.Background(), entry("prod"), Options{Replace: true})
		if err != nil {
			if !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrParse) {
				t.Fatalf("unnamed error %v", err)
			}
			return
		}
		p.Diff()
		j := Backups(filepath.Join(folder(t), "j"))
		mustApply(t, p, j)
		after := []byte(text(t, path))
		if !reflect.DeepEqual(others(t, data, "prod"), others(t, after, "prod")) {
			t.Fatalf("others have changed:\n%s", after)
		}
		if !p.Empty() {
			checkEntry(t, path, "prod")
		}
		if !p.Empty() {
			mustUndo(t, r, j)
		}
		if got := text(t, path); got != string(data) {
			t.Fatalf("undo gives %q, want %q", got, data)
		}
	})
}

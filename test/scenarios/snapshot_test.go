//go:build linux

package scenarios

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/test/must"
)

// snapshot is the content of files, by path.
type snapshot map[string]string

// files takes a snapshot of what is below the paths. What is missing is missing
// in it.
func (u *user) files(paths ...string) snapshot {
	u.t.Helper()
	s := snapshot{}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			info, ierr := d.Info()
			if err != nil || ierr != nil {
				return fmt.Errorf("%w %w", err, ierr)
			}
			s[p] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(b))
			return nil
		})
		must.OK(u.t, err)
	}
	return s
}

// unchanged fails the test if what is below the paths is not as in before.
func (u *user) unchanged(before snapshot, paths ...string) {
	u.t.Helper()
	after := u.files(paths...)
	for _, p := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[p]; !ok {
			u.t.Errorf("%s is new", p)
		} else if old != after[p] {
			u.t.Errorf("%s has changed", p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[p]; !ok {
			u.t.Errorf("%s is gone", p)
		}
	}
}

// enrollments is the part of the state folder that says who is enrolled.
func (u *user) enrollments() []string {
	state := filepath.Join(u.Home, "state")
	return []string{filepath.Join(state, "enrollments"), filepath.Join(state, "certificates")}
}

// keys are the token's objects of private keys. A failed PIN writes the token's
// own record of tries, which is not among them.
func (u *user) keys() []string {
	u.t.Helper()
	objects, err := filepath.Glob(filepath.Join(u.Soft.Tokens, "*", "*.object"))
	must.OK(u.t, err)
	return slices.DeleteFunc(objects, func(p string) bool { return strings.HasSuffix(p, "token.object") })
}

// nothingHalfWritten looks for leftovers of interrupted writes.
func (u *user) nothingHalfWritten() {
	u.t.Helper()
	for p := range u.files(filepath.Join(u.Home, "state")) {
		if base := filepath.Base(p); strings.HasPrefix(base, ".") || strings.Contains(base, ".tmp") {
			u.t.Errorf("left behind: %s", p)
		}
	}
	beside, err := filepath.Glob(u.Kubeconfig + "?*")
	must.OK(u.t, err)
	for _, p := range beside {
		u.t.Errorf("left beside the kubeconfig: %s", p)
	}
}

//go:build linux && cgo

package faults

import (
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

// defects are what the run must find: each is put into a program of its own.
var defects = map[string][]change{
	"a file is written in its place": {{"hsm/shared/atomicfile/file.go", "	return os.Rename(f.temp.Name(), f.target)",
		"	b, err := os.ReadFile(f.temp.Name())\n	if err == nil {\n		err = os.WriteFile(f.target, b, 0o600)\n	}\n" +
			"	return errors.Join(err, os.Remove(f.temp.Name()))"}},
	"a full disk is not noticed": {{"hsm/shared/atomicfile/file.go",
		"	_, err := f.temp.Write(data)\n	if err == nil && settle",
		"	_, err := f.temp.Write(data)\n	err = nil\n	if err == nil && settle"}},
	"the kubeconfig's lock stays": {{"kubeconfig/lock.go", "	if h.isAt(h.name) {\n		err", "	if h.isAt(\"\") {\n		err"}},
	"a killed process's lock has no mark": {{"kubeconfig/lock_unix.go", "	if err != nil {\n		return newLock(name)\n	}\n",
		"	if err == nil {\n		_, _ = f.Close(), os.Remove(f.Name())\n	}\n	if err == nil || err != nil {\n		return newLock(name)\n	}\n"}},
	"a lock stays where nothing is left to change": {{"kubeconfig/apply.go", "		return p.tidy()",
		"		return nil"}},
	"the backup is written after the kubeconfig": {{"kubeconfig/apply.go",
		"	if err := dir.announce(p); err != nil {\n		return errors.Join(err, dir.withdraw(p))\n	}\n", ""},
		{"kubeconfig/apply.go", "	p.at(\"written\")\n", "	if err := dir.announce(p); err != nil {\n		return err\n	}\n"}},
	"an announced change counts": {{"kubeconfig/backup.go", "b != nil && !b.isBefore(now)", "b != nil"}},
	"progress is not saved before filing": {{"ui/flow/enroll/request.go",
		"	return enrolling.NewStore(r.env).Save(r.record)\n}\n\nfunc (r *attempt) signRequestWith", "	return nil\n}\n\nfunc (r *attempt) signRequestWith"}},
	"a key is forgotten by who makes it": {{"ui/flow/enroll/key.go",
		"	k.run.record.Generating, k.run.record.Before = true, before\n",
		"	k.run.record.Generating, k.run.record.Before = false, before\n"}},
	"a lock leaves the token open": {{"plugin/agent/token/held.go", "func (h *Held) Lock(why string) error {\n",
		"func (h *Held) Lock(why string) error {\n	if why == \"asked\" {\n		return nil\n	}\n"}},
	"what is unfinished stays": {{"plugin/home/write.go", "const sweptAfter = time.Hour", "const sweptAfter = 1000 * time.Hour"}},
}

// TestDefectsFit: every defect still has its place in the sources.
func TestDefectsFit(t *testing.T) {
	root, err := controlplane.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	for name, changes := range defects {
		o := overlay{texts: map[string]string{}}
		for _, c := range changes {
			if err := o.change(root, c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

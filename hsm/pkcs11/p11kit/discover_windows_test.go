package p11kit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestProgramFiles: a library is found where its maker installs it, and by nothing else.
func TestProgramFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, `Yubico\Yubico PIV Tool\bin\libykcs11.dll`)
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	p := programFiles(dir)
	if found, problems := p.Discover(); len(found)+len(problems) > 0 {
		t.Errorf("in an empty folder: %v, %v", found, problems)
	}
	must.OK(t, os.WriteFile(path, nil, 0o600))
	found, problems := p.Discover()
	if len(found) != 1 || found[0].Path != path || len(problems) > 0 {
		t.Errorf("%v, %v", found, problems)
	}
	if _, ok := p.Find(path); !ok {
		t.Error("it is not known by its path")
	}
}

package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/homedir"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
)

// MaxFile is the largest kubeconfig read, in bytes.
const MaxFile = 64 << 20

// Rules say which kubeconfig files count, with kubectl's precedence: one file
// named by flag, else the list in KUBECONFIG, else ~/.kube/config.
type Rules struct {
	// Explicit is the --kubeconfig flag; it must exist to be read, and excludes
	// all others.
	Explicit string
	// Files is KUBECONFIG taken apart; empty elements are skipped, as are files
	// that do not exist.
	Files []string
	// Default is used if the others are empty.
	Default string
	// Cluster, if not empty, takes the place of the cluster that a context names,
	// as kubectl's --cluster does.
	Cluster string
}

// DefaultRules are kubectl's for this process: explicit is the value of
// --kubeconfig, possibly empty; the rest comes from the environment.
func DefaultRules(explicit string) Rules {
	r := Rules{Explicit: explicit, Files: filepath.SplitList(os.Getenv("KUBECONFIG"))}
	if home := homedir.HomeDir(); home != "" {
		r.Default = filepath.Join(home, ".kube", "config")
	}
	return r
}

// Paths lists the files in order of precedence, existing or not, each once.
func (r Rules) Paths() []string {
	if r.Explicit != "" {
		return []string{r.Explicit}
	}
	var paths []string
	seen := map[string]bool{}
	for _, p := range r.Files {
		if p != "" && !seen[p] {
			seen[p] = true
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 && r.Default != "" && len(r.Files) == 0 {
		paths = []string{r.Default}
	}
	return paths
}

// DefaultFile is where new entries and the current context are written: the
// first file that exists, else the last of the list (kubectl's
// PathOptions.GetDefaultFilename). It is empty if there are no files.
func (r Rules) DefaultFile() string {
	paths := r.Paths()
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return paths[len(paths)-1]
}

// source is a kubeconfig file as it was read.
type source struct {
	path   string // path in the loading rules
	exists bool
	data   []byte
}

// readAll reads every file of the rules; missing ones have exists false.
func (r Rules) readAll() ([]source, error) {
	paths := r.Paths()
	if len(paths) == 0 {
		return nil, hint.Withf(errors.New("no kubeconfig file is named"), "set KUBECONFIG or HOME, or pass --kubeconfig")
	}
	sources := make([]source, 0, len(paths))
	for _, p := range paths {
		s, err := readSource(p)
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

func readSource(path string) (source, error) {
	if path == os.DevNull { // kubectl reads the null device as an empty file
		return source{path: path, exists: true}, nil
	}
	data, err := regularfile.Read(path, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return source{path: path}, nil
	}
	if err != nil {
		return source{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	return source{path: path, exists: true, data: data}, nil
}

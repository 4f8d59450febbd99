//go:build packages

package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/test/must"
)

// dist is the folder that goreleaser has filled.
func dist(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEHSM_DIST")
	if dir == "" {
		t.Fatal("KUBEHSM_DIST does not name the folder with the packages: run `make package-check`")
	}
	return dir
}

func sum(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must.OK(t, err)
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// SHA256SUMS is right, and leaves out nothing that is published.
func TestDistChecksums(t *testing.T) {
	dir := dist(t)
	f, err := os.Open(filepath.Join(dir, "SHA256SUMS"))
	must.OK(t, err)
	defer f.Close()
	listed := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		want, name, ok := strings.Cut(s.Text(), "  ")
		if !ok || sum(t, filepath.Join(dir, name)) != want {
			t.Errorf("%q is not so", s.Text())
		}
		listed[name] = true
	}
	files, err := os.ReadDir(dir)
	must.OK(t, err)
	kinds := map[string]bool{}
	for _, file := range files {
		for _, kind := range []string{".tar.gz", ".zip", ".deb", ".rpm", ".cdx.json"} {
			if strings.HasSuffix(file.Name(), kind) {
				kinds[kind] = true
				if !listed[file.Name()] {
					t.Errorf("%s has no checksum", file.Name())
				}
			}
		}
	}
	if len(kinds) != 5 {
		t.Errorf("only %v were made", kinds)
	}
}

// Each program has a list of what it was made of.
func TestDistSBOM(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(dist(t), "*.cdx.json"))
	if err != nil || len(lists) < 3 {
		t.Fatalf("%v, %v", lists, err)
	}
	for _, list := range lists {
		var doc struct {
			BOMFormat  string `json:"bomFormat"`
			Components []struct {
				Name string `json:"name"`
			} `json:"components"`
		}
		b, err := os.ReadFile(list)
		must.OK(t, errors.Join(err, json.Unmarshal(b, &doc)))
		least := 20
		if strings.HasPrefix(filepath.Base(list), "kubehsm-credential") {
			least = 3
		}
		if doc.BOMFormat != "CycloneDX" || len(doc.Components) < least {
			t.Errorf("%s: %s of %d components", list, doc.BOMFormat, len(doc.Components))
		}
	}
}

// manifest is krew's, all of it: what is unknown is an error.
// See https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Homepage         string     `json:"homepage"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	URI      string `json:"uri"`
	SHA256   string `json:"sha256"`
	Bin      string `json:"bin"`
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Files []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

// The manifest keeps krew's rules, and what it names installs as krew does it:
// the archive is unpacked, and a link of the plugin's name leads to the program.
func TestDistKrew(t *testing.T) {
	dir := dist(t)
	b, err := os.ReadFile(filepath.Join(dir, "krew", "hsm.yaml"))
	var m manifest
	must.OK(t, errors.Join(err, yaml.UnmarshalStrict(b, &m)))
	spec := m.Spec
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "hsm" ||
		!regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(spec.Version) {
		t.Errorf("%+v", m)
	}
	if l := len(spec.ShortDescription); l == 0 || l > 50 || strings.HasSuffix(spec.ShortDescription, ".") ||
		spec.Description == "" || spec.Homepage == "" {
		t.Errorf("its words: %+v", spec)
	}
	seen := map[string]bool{}
	for _, p := range spec.Platforms {
		labels := p.Selector.MatchLabels
		name := labels["os"] + "/" + labels["arch"]
		t.Run(name, func(t *testing.T) {
			if seen[name] || len(labels) != 2 {
				t.Errorf("the selector %v", labels)
			}
			seen[name] = true
			archive := filepath.Join(dir, path.Base(p.URI))
			if !strings.HasPrefix(p.URI, "https://") || sum(t, archive) != p.SHA256 {
				t.Errorf("%s is another file", p.URI)
			}
			to := t.TempDir()
			must.OK(t, unpack(archive, to))
			for _, file := range []string{p.Bin, "LICENSE", "THIRD-PARTY", "README.md", "docs/developer.md",
				"docs/pictures/job.svg", "completions/_kubehsm", "man/kubehsm.1.gz"} {
				if info, err := os.Stat(filepath.Join(to, file)); err != nil || info.Size() == 0 {
					t.Errorf("the archive has no %s: %v", file, err)
				}
			}
			_, err := os.Stat(filepath.Join(to, "kubehsm-credential"))
			if small := labels["os"] != "windows"; small != (err == nil) {
				t.Errorf("kubehsm-credential in the archive: %v", err)
			}
			page := unzip(t, filepath.Join(to, "man", "kubehsm.1.gz"))
			if !strings.Contains(page, strings.TrimPrefix(spec.Version, "v")) || !strings.Contains(page, `"20`) {
				t.Errorf("the pages lack their version, or the date of the commit: %.200s", page)
			}
			if name != runtime.GOOS+"/"+runtime.GOARCH {
				return
			}
			link := filepath.Join(to, "kubectl-"+m.Metadata.Name)
			must.OK(t, os.Symlink(filepath.Join(to, p.Bin), link))
			out, err := exec.Command(link, "version").CombinedOutput()
			if err != nil || !strings.Contains(string(out), strings.TrimPrefix(spec.Version, "v")) {
				t.Errorf("the plugin says %q, %v", out, err)
			}
		})
	}
	if !seen["linux/"+runtime.GOARCH] || !seen["windows/amd64"] {
		t.Errorf("only for %v", seen)
	}
}

// unpack is krew's: regular files only, below to.
func unpack(archive, to string) error {
	write := func(name string, mode os.FileMode, r io.Reader) error {
		if !filepath.IsLocal(name) {
			return errors.New(name + " leads out of the archive")
		}
		at := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		return errors.Join(err, os.WriteFile(at, b, mode.Perm()))
	}
	b, err := os.ReadFile(archive)
	if err != nil {
		return err
	}
	if strings.HasSuffix(archive, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err := errors.Join(err, write(f.Name, f.Mode(), r)); err != nil {
				return err
			}
		}
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.Contains([]byte{tar.TypeReg, tar.TypeDir}, h.Typeflag) {
			return errors.New(h.Name + " is neither file nor folder")
		}
		if h.Typeflag == tar.TypeReg {
			if err := write(h.Name, h.FileInfo().Mode(), r); err != nil {
				return err
			}
		}
	}
}

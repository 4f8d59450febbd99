package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayout follows the layout from its index to the program, as a runtime does,
// and compares every digest on the way.
func TestLayout(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("the program"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, again := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "again")
	for _, d := range []string{dir, again} {
		if err := write(d, []string{"amd64=" + program, "arm64=" + program}); err != nil {
			t.Fatal(err)
		}
	}
	one, err := os.ReadFile(filepath.Join(dir, "index.json"))
	two, err2 := os.ReadFile(filepath.Join(again, "index.json"))
	if err != nil || err2 != nil || !bytes.Equal(one, two) {
		t.Errorf("twice is not the same: %v, %v", err, err2)
	}
	blob := func(d descriptor, to any) []byte {
		data, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:")))
		if err != nil || digest(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("%+v: %v", d, err)
		}
		if to != nil {
			if err := json.Unmarshal(data, to); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	type index struct{ Manifests []descriptor }
	var top, images index
	if err := json.Unmarshal(one, &top); err != nil {
		t.Fatal(err)
	}
	blob(top.Manifests[0], &images)
	for i, arch := range []string{"amd64", "arm64"} {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		blob(images.Manifests[i], &manifest)
		var config struct {
			Architecture string
			Config       struct{ User string }
			RootFS       struct {
				DiffIDs []string `json:"diff_ids"`
			} `json:"rootfs"`
		}
		blob(manifest.Config, &config)
		z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil || digest(plain) != config.RootFS.DiffIDs[0] {
			t.Errorf("the layer: %v", err)
		}
		files := tar.NewReader(bytes.NewReader(plain))
		h, err := files.Next()
		if err != nil || h.Name != "kubehsm-cluster" || h.Mode != 0o555 {
			t.Fatalf("%+v, %v", h, err)
		}
		if content, err := io.ReadAll(files); err != nil || string(content) != "the program" {
			t.Errorf("%q, %v", content, err)
		}
		if config.Architecture != arch || config.Config.User != user || images.Manifests[i].Platform.Architecture != arch {
			t.Errorf("%+v", config)
		}
	}
	for _, bad := range [][]string{{"amd64"}, {"amd64=" + program + "-not"}} {
		if err := write(filepath.Join(t.TempDir(), "bad"), bad); err == nil {
			t.Errorf("%v makes an image", bad)
		}
	}
}

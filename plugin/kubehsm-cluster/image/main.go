// image writes a container image as an OCI layout (OCI Image Format 1.1): one static
// program on nothing, for several architectures, without a daemon and without a base
// image. The same programs give the same bytes.
//
//	go run ./image DIR amd64=FILE arm64=FILE
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	// user is nobody's: not root, and no account of a distribution's.
	user = "65532:65532"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type layout struct{ dir string }

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: image DIR ARCH=FILE...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write makes the layout in dir anew, for programs such as "amd64=./kubehsm-cluster".
func write(dir string, programs []string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
		return err
	}
	l := layout{dir}
	var all []descriptor
	for _, p := range programs {
		arch, file, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCH=FILE", p)
		}
		d, err := l.image(arch, file)
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	index, err := l.add(mediaIndex, map[string]any{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": all})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": "kubehsm-cluster"}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []descriptor{index}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), top, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
}

// image adds that of one architecture.
func (l layout) image(arch, file string) (descriptor, error) {
	program, err := os.ReadFile(file)
	if err != nil {
		return descriptor{}, err
	}
	var plain bytes.Buffer
	t := tar.NewWriter(&plain)
	head := &tar.Header{Name: "kubehsm-cluster", Mode: 0o555, Size: int64(len(program)), Format: tar.FormatUSTAR}
	if err := t.WriteHeader(head); err != nil {
		return descriptor{}, err
	}
	if _, err := t.Write(program); err != nil {
		return descriptor{}, err
	}
	if err := t.Close(); err != nil {
		return descriptor{}, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain.Bytes()); err != nil {
		return descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return descriptor{}, err
	}
	layer, err := l.blob(mediaLayer, packed.Bytes())
	if err != nil {
		return descriptor{}, err
	}
	on := platform{arch, "linux"}
	config, err := l.add(mediaConfig, map[string]any{"architecture": arch, "os": on.OS,
		"config": map[string]any{"Entrypoint": []string{"/kubehsm-cluster"}, "User": user},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(plain.Bytes())}}})
	if err != nil {
		return descriptor{}, err
	}
	d, err := l.add(mediaManifest, map[string]any{"schemaVersion": 2, "mediaType": mediaManifest, "config": config,
		"layers": []descriptor{layer}})
	d.Platform = &on
	return d, err
}

// add adds what is JSON.
func (l layout) add(media string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(media, data)
}

func (l layout) blob(media string, data []byte) (descriptor, error) {
	d := descriptor{MediaType: media, Digest: digest(data), Size: len(data)}
	name := filepath.Join(l.dir, "blobs", "sha256", strings.TrimPrefix(d.Digest, "sha256:"))
	return d, os.WriteFile(name, data, 0o644)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

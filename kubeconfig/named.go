package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/tools/clientcmd/api"
)

// maxNamed bounds a file that a kubeconfig names, in bytes.
const maxNamed = 1 << 20

// ReadFile reads a file that a kubeconfig names: a regular one of at most 1 MiB.
func ReadFile(path string) ([]byte, error) { return readRegular(path, maxNamed) }

// readRegular reads a regular file of at most so many bytes. Others may have
// named it: a pipe that nobody writes to, a device or an endless file is refused.
func readRegular(path string, most int64) ([]byte, error) {
	f, size, err := openRegular(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(f, most+1))
	if err == nil && int64(data.Len()) > most {
		err = tooLarge(path, most)
	}
	return data.Bytes(), err
}

func openRegular(path string, most int64) (f *os.File, size int64, err error) {
	info, err := os.Stat(path) // some devices act when they are opened
	if err == nil {
		err = regular(path, info, most)
	}
	if err != nil {
		return nil, 0, err
	}
	if f, err = os.OpenFile(path, os.O_RDONLY|nonBlock, 0); err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err == nil {
		err = regular(path, info, most)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func regular(path string, info os.FileInfo, most int64) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", path)
	case info.Size() > most:
		return tooLarge(path, most)
	}
	return nil
}

func tooLarge(path string, most int64) error {
	return fmt.Errorf("%s: larger than %d MiB", path, most>>20)
}

// checkNamed looks at the files that a context names: client-go opens them
// whatever they are, also beside data that count in their place.
func checkNamed(config *api.Config, name string) error {
	c := config.Contexts[name]
	var named []string
	if cluster := config.Clusters[c.Cluster]; cluster != nil {
		named = append(named, cluster.CertificateAuthority)
	}
	if user := config.AuthInfos[c.AuthInfo]; user != nil {
		named = append(named, user.ClientCertificate, user.ClientKey, user.TokenFile)
	}
	for _, path := range named {
		if path == "" {
			continue
		}
		f, _, err := openRegular(path, maxNamed)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

package pinsource

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

const maxPIN = 1024

// credentialsVar names the folder of a service's credentials (systemd.exec(5)).
const credentialsVar = "CREDENTIALS_DIRECTORY"

// errNotPrivate: others could read or change the source.
var errNotPrivate = errors.New("not private")

// open also returns an identity that changes with the content, "" if there is none.
func (s Source) open(getenv func(string) string) (f *os.File, identity string, err error) {
	check := checkOwn
	path := s.name
	switch s.kind {
	case descriptor:
		return s.openDescriptor()
	case credential:
		dir := getenv(credentialsVar)
		if !filepath.IsAbs(dir) {
			return nil, "", hint.With(fmt.Errorf("%s is not set", credentialsVar),
				"let systemd pass it: LoadCredential="+s.name+":/path")
		}
		path, check = filepath.Join(dir, s.name), checkCredential
	}
	if f, err = openPlain(path); err != nil {
		return nil, "", err
	}
	info, err := f.Stat()
	if err == nil {
		err = check(path, info)
	}
	if err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	if s.kind == credential { // made anew at every start of the service
		return f, fmt.Sprintf("size %d", info.Size()), nil
	}
	return f, identify(info), nil
}

func (s Source) openDescriptor() (*os.File, string, error) {
	n, err := strconv.Atoi(s.name)
	if err != nil {
		return nil, "", err
	}
	f := os.NewFile(uintptr(n), s.String())
	if f == nil {
		return nil, "", fs.ErrInvalid
	}
	info, err := f.Stat()
	if err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() {
		return f, "", nil
	}
	return f, identify(info), nil
}

func (s Source) read(getenv func(string) string) (pin *hsm.Secret, identity string, err error) {
	f, identity, err := s.open(getenv)
	if err == nil {
		pin, err = hsm.ReadSecret(f, make([]byte, maxPIN))
		if cerr := f.Close(); err == nil && cerr != nil {
			pin.Zero()
			pin, err = nil, cerr
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("PIN source %s: %w", s, err)
	}
	return pin, identity, nil
}

// identify returns an identity of a file's content without reading it.
func identify(info fs.FileInfo) string {
	return fmt.Sprintf("%d bytes of %d, %s", info.Size(), info.ModTime().UnixNano(), inode(info))
}

func regular(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: %w", path, errNotPrivate)
	}
	return nil
}

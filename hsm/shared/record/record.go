// Package record reads the records that programs of different versions share: JSON
// objects, each in a file of its own. Everybody may import it.
//
// A record says which version of its format it is written in, and which version a
// program has to know to use it:
//
//	{"version": 3, "needs": 2, …}
//
// A record without "version" is of version 1. Records of version 1 have neither member, so
// that programs from before this rule read them. Without "needs", a program must know the
// record's version.
//
// A program refuses a record that needs a version that it does not know ([ErrNewer]), since
// a field that it does not know may be a restriction. It uses a record that is newer but
// needs only what it knows, and ignores the fields that it does not know: by "needs" the
// record says that none of them is a restriction. It never rewrites such a record, which
// would lose those fields.
//
// A new field therefore raises the version. If older programs may ignore the field, "needs"
// stays at the version that they know; if not, "needs" is raised too, in the records that
// have the field.
package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/hsm/shared/strict"
)

// ErrNewer says that a later version of the program wrote the record.
var ErrNewer = errors.New("a later version of kubehsm wrote it")

// MaxSize bounds a record, in bytes.
const MaxSize = 4 << 20

// Format is what a program knows of a kind of records.
type Format struct {
	// Version is the newest version of the format that the program knows.
	Version int
	// Lenient ignores unknown fields in records of versions that it knows. It is for
	// kinds that were always read so, and that restrict nothing.
	Lenient bool
}

// mark is what a record says of its format.
type mark struct {
	Version int `json:"version"`
	Needs   int `json:"needs"`
}

func markOf(data []byte) (mark, error) {
	var m mark
	if marked(data) {
		if err := json.Unmarshal(data, &m); err != nil {
			return mark{}, err
		}
	}
	m.Version = max(m.Version, 1)
	if m.Needs == 0 {
		m.Needs = m.Version
	}
	return m, nil
}

// marked tells whether the record may say something of its format: if not, nobody has to
// look for it member by member.
func marked(data []byte) bool {
	return bytes.Contains(data, []byte(`"version"`)) || bytes.Contains(data, []byte(`"needs"`))
}

// Decode reads the record in data into v, a pointer to a struct. Errors: [ErrNewer],
// or what is wrong with the text.
func (f Format) Decode(data []byte, v any) error {
	m, err := markOf(data)
	switch {
	case err != nil:
		return err
	case m.Needs > f.Version:
		return newer(fmt.Errorf("%w: it needs version %d of the format, this program knows %d", ErrNewer, m.Needs, f.Version))
	case m.Version > f.Version || f.Lenient:
		return json.Unmarshal(data, v)
	}
	if data, err = unmarked(data); err != nil {
		return err
	}
	return strict.Decode(data, v)
}

func newer(err error) error {
	return hint.With(err, "update kubehsm here, and end an agent of the older version: `kubehsm agent stop`")
}

// unmarked is the record without what it says of its format.
func unmarked(data []byte) ([]byte, error) {
	if !marked(data) {
		return data, nil
	}
	members, err := strict.Members(data)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for _, m := range members {
		if m.Name == "version" || m.Name == "needs" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return nil, err
		}
		b.Write(append(append(name, ':'), m.Value...))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Replaceable tells whether the record in the file at path, if there is one, may be
// written anew: [ErrNewer] if a program wrote it that knows more.
func (f Format) Replaceable(path string) error {
	data, err := regularfile.Read(path, MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := markOf(data)
	if err == nil && m.Version > f.Version {
		return newer(fmt.Errorf("%s: %w, in version %d of the format; writing it here would lose what version %d does "+
			"not know",
			path, ErrNewer, m.Version, f.Version))
	}
	return nil // a damaged record may be written anew
}

// Encode is the record as it is written.
func Encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// Names lists the records in a folder, in order: its files NAME.json, but for hidden
// ones. A folder that is not there has none.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

package pinsource

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/settings"
)

type kind string

const (
	file       kind = "file"
	credential kind = "credential"
	descriptor kind = "fd"
)

// Source is where a PIN is read from. It names the place and never holds the
// PIN. It compares with ==; the zero value is none.
type Source struct {
	kind kind
	name string // an absolute path, a credential's name, a descriptor's number
}

// Parse reads "file:/path" (or the bare path, or a file URL), "credential:NAME"
// or "fd:N".
func Parse(s string) (Source, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	switch {
	case strings.HasPrefix(s, "/"):
		return parseFile(s)
	case strings.HasPrefix(s, "|"):
		return Source{}, hint.With(errors.New("a program is no PIN source"),
			"have it write to a private file, or to an open descriptor (--pin-fd)")
	case !ok:
		return Source{}, badSource(s)
	case scheme == "file" && strings.HasPrefix(rest, "//"):
		u, err := url.Parse(s)
		if err != nil || u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" {
			return Source{}, badSource(s)
		}
		return parseFile(u.Path)
	case scheme == "file":
		return parseFile(rest)
	case scheme == "credential":
		// systemd.exec(5): "credential IDs must be … suitable for inclusion in file names".
		if rest == "" || rest == "." || rest == ".." || len(rest) > 255 || strings.ContainsAny(rest, "/\\\x00") {
			return Source{}, badSource(s)
		}
		return Source{credential, rest}, nil
	case scheme == "fd":
		n, err := strconv.ParseUint(rest, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != rest {
			return Source{}, badSource(s)
		}
		return Source{descriptor, rest}, nil
	}
	return Source{}, badSource(s)
}

func parseFile(path string) (Source, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return Source{}, hint.With(fmt.Errorf("the PIN source's path %q is not absolute and plain", path),
			"write it in full, without . and ..")
	}
	return Source{file, path}, nil
}

func badSource(s string) error {
	return hint.With(fmt.Errorf("%q is no PIN source", s), "write file:/path, credential:NAME (systemd's) or fd:N")
}

// String is the source as [Parse] reads it.
func (s Source) String() string {
	if s == (Source{}) {
		return ""
	}
	return string(s.kind) + ":" + s.name
}

// Entry gives the PIN of a token. Entries belong to the user's configuration.
type Entry struct {
	Token  hsm.URI
	Source Source
	closed error // the descriptor was not open when the configuration was read
}

// Entries reads those of the configuration. It is called before drivers are
// made: see [CheckDescriptor].
func Entries(c settings.Config) ([]Entry, error) {
	all := make([]Entry, 0, len(c.PINSources))
	for i, from := range c.PINSources {
		e, err := newEntry(from)
		if err != nil {
			return nil, fmt.Errorf("config.yaml: pinSources[%d]: %w", i, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// newEntry requires the token's serial: a label is easily imitated, and the imitation would get the
// PIN.
func newEntry(from settings.PINSource) (e Entry, err error) {
	if e.Source, err = Parse(from.Source); err != nil {
		return e, err
	}
	if e.Token, err = hsm.ParseURI(from.Token); err != nil {
		return e, err
	}
	if e.Source.kind == descriptor {
		fd, err := strconv.Atoi(e.Source.name)
		if err != nil {
			return e, err
		}
		e.closed = CheckDescriptor(fd)
	}
	switch u := e.Token; {
	case u.Serial == "":
		return e, hint.With(errors.New("the token is named without its serial, and a label is easily imitated"),
			"`kubehsm token list` shows the whole URI")
	case u.Slot != "" || u.Object != "" || len(u.ID) > 0 || u.Type != "" || u.PINSource != "":
		return e, errors.New("the token's URI names more than a token")
	}
	return e, nil
}

// Gives reports whether an entry gives the PIN of the token that u names.
func Gives(entries []Entry, u hsm.URI) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool { return compatible(e.Token, u) })
}

// Listed is nil if u has no pin-source, or one that an entry gives for a token
// that u can mean.
func Listed(entries []Entry, u hsm.URI) error {
	if u.PINSource == "" {
		return nil
	}
	asked, err := Parse(u.PINSource)
	if err != nil {
		return fmt.Errorf("pin-source: %w", err)
	}
	for _, e := range entries {
		if e.Source == asked && compatible(e.Token, u) {
			return nil
		}
	}
	return hint.With(fmt.Errorf("the pin-source %s is not used: config.yaml does not list it for this token", asked),
		"add {token: <its URI with the serial>, source: "+asked.String()+"} to pinSources there, if you trust it")
}

func compatible(a, b hsm.URI) bool {
	eq := func(x, y string) bool { return x == "" || y == "" || x == y }
	return a.Scheme == b.Scheme && eq(a.Serial, b.Serial) && eq(a.Token, b.Token) && eq(a.Model, b.Model) &&
		eq(a.Manufacturer, b.Manufacturer)
}

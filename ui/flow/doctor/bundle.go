package doctor

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
	"github.com/kubehsm/kubehsm/plugin/audit"
)

// logLines bounds what of a log goes into a bundle.
const logLines = 500

// bundleNote is what the bundle says of itself.
const bundleNote = `This is a report of kubehsm about itself, to be sent to somebody who helps.

checks.json   what kubehsm doctor found
system.json   versions, and which environment variables are set (not their values)
agent.log     the end of the agent's log
audit.jsonl   the end of the record of what the agent did

There is no PIN, key, certificate or kubeconfig in it. Names of people, machines,
servers, folders, tokens, contexts and files were replaced by placeholders such as <server-1>,
the same one everywhere. Read it before you send it all the same.
`

// Bundle writes a report for somebody who helps, as a zip archive, with names
// replaced ([redactor]). It does what [Run] does.
func Bundle(ctx context.Context, o Options, w io.Writer) ([]Check, error) {
	o.defaults()
	checks := Run(ctx, o, nil)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := newRedactor(ctx, &o)
	z := zip.NewWriter(w)
	add := func(name string, body []byte) error {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Now().UTC()})
		if err != nil {
			return err
		}
		_, err = f.Write(body)
		return err
	}
	system, err := json.MarshalIndent(systemOf(&o), "", "  ")
	if err != nil {
		return nil, err
	}
	log, err := tail(o.Env.Dirs.LogFile())
	if err != nil {
		return nil, err
	}
	record, err := auditTail(ctx, audit.Path(o.Env.Dirs), r)
	if err != nil {
		return nil, err
	}
	told := make([]Check, len(checks))
	for i, c := range checks {
		for _, field := range []*string{&c.ID, &c.Title, &c.Found, &c.Why, &c.Fix} {
			*field = string(r.redact([]byte(*field)))
		}
		told[i] = c
	}
	var described bytes.Buffer
	e := json.NewEncoder(&described)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // placeholders are in angle brackets
	if err := e.Encode(told); err != nil {
		return nil, err
	}
	return checks, errors.Join(
		add("README.txt", []byte(bundleNote)),
		add("checks.json", described.Bytes()),
		add("system.json", r.redact(system)),
		add("agent.log", r.redact(log)),
		add("audit.jsonl", r.redact(record)),
		z.Close())
}

// WriteBundle is [Bundle] into a new file, which is written whole or not at all,
// readable for its owner.
func WriteBundle(ctx context.Context, path string, o Options) ([]Check, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, hint.With(err, "name a file that does not exist yet")
	}
	if err != nil {
		return nil, err
	}
	checks, err := Bundle(ctx, o, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return checks, nil
}

// systemOf describes the machine without naming it.
func systemOf(o *Options) any {
	doc := struct {
		Version     string   `json:"version"`
		Go          string   `json:"go"`
		Platform    string   `json:"platform"`
		System      string   `json:"system,omitempty"`
		Time        string   `json:"time"`
		Environment []string `json:"environment"`
	}{Version: o.Env.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Time: time.Now().UTC().Format(time.RFC3339)}
	if b, err := os.ReadFile("/etc/os-release"); err == nil { // Linux's own words; others have none
		for line := range bytes.Lines(b) {
			if name, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("PRETTY_NAME=")); ok {
				doc.System = string(bytes.Trim(name, `"`))
			}
		}
	}
	for _, name := range []string{"KUBEHSM_HOME", "KUBECONFIG", "KUBERC", "SOFTHSM2_CONF", "XDG_RUNTIME_DIR",
		"XDG_CONFIG_HOME", "XDG_STATE_HOME",
		"DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "TMUX", "TERM", "NO_COLOR", "HTTPS_PROXY", "https_proxy", "NO_PROXY",
		"PCSCLITE_CSOCK_NAME", "WSL_DISTRO_NAME"} {
		if o.Getenv(name) != "" {
			doc.Environment = append(doc.Environment, name)
		}
	}
	return doc
}

// tail is the end of a text file, nothing of one that is not there.
func tail(path string) ([]byte, error) {
	f, _, err := regularfile.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines ring
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		lines.add(s.Bytes())
	}
	return lines.bytes(), s.Err()
}

// auditTail is the end of the record, without the requests that somebody agreed
// to and the rules about such: they name what is in a cluster. names learns those in it.
func auditTail(ctx context.Context, path string, names *redactor) ([]byte, error) {
	var lines ring
	_, err := audit.Read(ctx, path, audit.Filter{}, func(r audit.Record) error {
		names.recorded(r)
		r.Request, r.Statement, r.Signature = "", "", nil
		r.Policy, _, _ = strings.Cut(r.Policy, ":") // rules name resources and namespaces
		b, err := json.Marshal(r)
		lines.add(b)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("the record of the agent: %w", err)
	}
	return lines.bytes(), nil
}

// ring keeps the last lines.
type ring struct {
	lines [][]byte
	next  int
}

func (r *ring) add(line []byte) {
	line = append(bytes.Clone(line), '\n')
	if len(r.lines) < logLines {
		r.lines = append(r.lines, line)
		return
	}
	r.lines[r.next] = line
	r.next = (r.next + 1) % logLines
}

func (r *ring) bytes() []byte {
	return append(bytes.Join(r.lines[r.next:], nil), bytes.Join(r.lines[:r.next], nil)...)
}

package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/regularfile"
)

// EnvHome is the environment variable that puts everything under one folder.
const EnvHome = "KUBEHSM_HOME"

// ErrUnsafe says that somebody else could change a file or folder we rely on.
var ErrUnsafe = errors.New("not safe to use")

// Dirs are the folders. All are absolute.
type Dirs struct {
	// Home is KUBEHSM_HOME's value, "" if it is not set. Kubeconfig entries repeat it.
	Home string
	// Config holds config.yaml, written by the user only.
	Config string
	// State holds enrollments, certificates, the bridge's identity and the log.
	State string
	// Run holds the agent's socket and lock; it may vanish at logout.
	Run string
}

// FromEnv works the folders out from the environment (getenv is [os.Getenv]
// outside tests). It looks at $XDG_RUNTIME_DIR, which counts only if
// it is ours, as sudo -E leaves another user's behind, and if no agent has run elsewhere: [Dirs.Settled].
func FromEnv(getenv func(string) string) (Dirs, error) {
	if h := getenv(EnvHome); h != "" {
		if !filepath.IsAbs(h) {
			return Dirs{}, hint.With(fmt.Errorf("%s is %q, not an absolute path", EnvHome, h), absHint)
		}
		h = filepath.Clean(h)
		return Dirs{Home: h, Config: h, State: filepath.Join(h, "state"), Run: filepath.Join(h, "run")}, nil
	}
	config, err := folder(getenv, configVar, configFolder)
	if err != nil {
		return Dirs{}, err
	}
	state, err := folder(getenv, stateVar, stateFolder)
	if err != nil {
		return Dirs{}, err
	}
	d := Dirs{Config: filepath.Join(config, "kubehsm"), State: filepath.Join(state, "kubehsm")}
	d.Run = filepath.Join(d.State, "run")
	if run := getenv(runVar); filepath.IsAbs(run) && checkDir(run) == nil {
		d.Run = filepath.Join(run, "kubehsm")
	}
	return d.Settled(), nil
}

// Settled is d with the Run that the agent of this host has, if one has run: su, cron and others that pass
// on little of the environment have no XDG_RUNTIME_DIR, and must not have an agent of their own.
func (d Dirs) Settled() Dirs {
	if note := d.note(); note != "" && checkDir(note) == nil {
		d.Run = note
	}
	return d
}

// note is the symbolic link to this host's Run, "" if the environment does not choose that folder.
func (d Dirs) note() string {
	host := host()
	if d.Home != "" || host == "" {
		return ""
	}
	return filepath.Join(d.State, "hosts", host)
}

// settle makes the note, unless another process has. A note to a missing folder is from a session
// that is over.
func (d Dirs) settle() error {
	note := d.note()
	if note == "" || d.Run == note {
		return nil
	}
	if err := MakeDir(filepath.Dir(note)); err != nil {
		return err
	}
	if _, err := os.Stat(note); errors.Is(err, fs.ErrNotExist) {
		old := note + "-" + strconv.Itoa(os.Getpid()) // renamed, as what is removed could be another process's that is new
		if os.Rename(note, old) == nil {
			if now, err := os.Readlink(old); err == nil && checkDir(old) == nil {
				d.Run = now
			}
			if err := os.Remove(old); err != nil {
				return err
			}
		}
	}
	if err := os.Symlink(d.Run, note); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// folder ignores a relative path, as the XDG base directory specification says.
func folder(getenv func(string) string, name, fallback string) (string, error) {
	if v := getenv(name); filepath.IsAbs(v) {
		return filepath.Clean(v), nil
	}
	h := getenv(homeVar)
	if !filepath.IsAbs(h) {
		var err error
		if h, err = os.UserHomeDir(); err != nil || !filepath.IsAbs(h) {
			return "", hint.Withf(errors.New("no home folder is known"), "set %s, or %s to a folder of yours", homeVar, EnvHome)
		}
	}
	return filepath.Join(h, fallback), nil
}

// Check checks that the folders, as far as they are there, are ours alone to
// change. Errors wrap [ErrUnsafe] or come from the file system.
func (d Dirs) Check() error {
	for _, dir := range []string{d.Home, d.Config, d.State, d.Run} {
		if dir == "" {
			continue
		}
		if err := checkDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Prepare checks the folders and creates State and Run with mode 0700 where
// missing. Errors are those of [Dirs.Check].
func (d Dirs) Prepare() error {
	if err := d.Check(); err != nil {
		return err
	}
	for _, dir := range []string{d.State, d.Run} {
		if err := MakeDir(dir); err != nil {
			return err
		}
	}
	return d.settle()
}

// ConfigFile is the path of config.yaml.
func (d Dirs) ConfigFile() string { return filepath.Join(d.Config, "config.yaml") }

// Socket is the path of the agent's socket.
func (d Dirs) Socket() string { return filepath.Join(d.Run, "agent.sock") }

// AgentLock is the file that one agent at a time has locked.
func (d Dirs) AgentLock() string { return filepath.Join(d.Run, "agent.lock") }

// AgentProcess is the file that names the agent's process.
func (d Dirs) AgentProcess() string { return filepath.Join(d.Run, "agent.json") }

// LogFile is the path of the agent's log.
func (d Dirs) LogFile() string { return filepath.Join(d.State, "agent.log") }

// MakeDir creates dir, and what is missing above it, with mode 0700, and
// checks it. Errors wrap [ErrUnsafe] or come from the file system.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return checkDir(dir)
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder: %w", dir, ErrUnsafe)
	}
	return checkOwner(dir, info)
}

// CheckFile checks that the file at path is a regular one that only we can
// change. Errors wrap [ErrUnsafe], or [fs.ErrNotExist].
func CheckFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: %w", path, ErrUnsafe)
	}
	return checkOwner(path, info)
}

// OpenFile opens the file at path, which [CheckFile] accepts, by flag as [os.OpenFile] does. A
// pipe is refused, and not waited for.
func OpenFile(path string, flag int) (*os.File, fs.FileInfo, error) {
	f, info, err := regularfile.Open(path, flag)
	if errors.Is(err, regularfile.ErrOther) {
		err = hint.Withf(fmt.Errorf("%w: %w", err, ErrUnsafe), "move %s away: kubehsm's own file there is a regular one", path)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := checkOwner(path, info); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// MaxFile bounds the files of ours that have no bound of their own, in bytes.
const MaxFile = 1 << 20

// ReadFile reads the file at path, which [CheckFile] accepts and which has at most most
// bytes. It uses the room of buf, which may be nil.
func ReadFile(path string, most int64, buf []byte) ([]byte, error) {
	f, info, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return regularfile.Rest(f, info, most, buf)
}

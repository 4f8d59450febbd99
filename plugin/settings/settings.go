// Package settings reads the user's own configuration, config.yaml in the folder that package home knows.
package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// Config is the user's own configuration. What it lists is trusted: libraries
// named here are loaded, programs named here are started.
type Config struct {
	// Modules are PKCS#11 libraries to load besides those the system registers.
	Modules []Module `yaml:"modules"`
	// OnlyModules leaves out all other tokens: neither the libraries that the
	// system registers nor smart cards are looked at. Loading some libraries has
	// effects of its own (tpm2-pkcs11 makes a folder in $HOME).
	OnlyModules bool `yaml:"onlyModules"`
	// Pinentry is the absolute path of the program that asks for PINs when
	// there is no terminal; "" means none.
	Pinentry string `yaml:"pinentry"`
	// PINSources give the PINs of tokens that are used where nobody can type.
	// Package pinsource checks and reads them.
	PINSources []PINSource `yaml:"pinSources"`
	// Unlock bounds how long the agent keeps a token unlocked.
	Unlock Unlock `yaml:"unlock"`
	// LockOn says what else locks all tokens.
	LockOn LockOn `yaml:"lockOn"`
	// Renew says whether the agent renews certificates by itself.
	Renew Renew `yaml:"renew"`
	// Follow says how often the agent looks whether a cluster in use has moved.
	Follow Follow `yaml:"follow"`
}

// Renew says whether the agent renews certificates by itself.
type Renew string

// The values of Renew.
const (
	// RenewAuto renews where an approver in the cluster approved the last request by itself.
	RenewAuto Renew = "auto"
	// RenewNever leaves it to `kubehsm certificate renew`.
	RenewNever Renew = "never"
)

// Follow is how often the agent looks whether a cluster in use has another address or authority, to follow
// it: 1 s to 24 h, or [FollowNever]; 0 is [DefaultFollow].
type Follow time.Duration

// Values of Follow.
const (
	DefaultFollow = Follow(24 * time.Hour)
	// FollowNever leaves it to `kubehsm kubeconfig refresh`. The file says "never".
	FollowNever Follow = -1
)

// UnmarshalYAML reads a duration, or "never".
func (f *Follow) UnmarshalYAML(n *yaml.Node) error {
	if n.Value == "never" {
		*f = FollowNever
		return nil
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return fmt.Errorf("line %d: follow must be never or a duration between 1s and 24h, not %q", n.Line, n.Value)
	}
	*f = Follow(d)
	return nil
}

// Module is a PKCS#11 library.
type Module struct {
	// Name is what the user calls it; "" is the file's name.
	Name string `yaml:"name"`
	// Path is absolute.
	Path string `yaml:"path"`
	// Env is set in our process before the library is loaded: kubectl started
	// from a desktop lacks what a login shell would have set.
	Env map[string]string `yaml:"env"`
	// InitReserved is given to C_Initialize as pReserved: some libraries, such as NSS's,
	// read their settings there.
	InitReserved string `yaml:"initReserved"`
}

// PINSource says where the PIN of a token is read from.
type PINSource struct {
	// Token is the token's URI, with its serial.
	Token string `yaml:"token"`
	// Source is file:/path, credential:NAME or fd:N.
	Source string `yaml:"source"`
}

// Unlock is the unlock window.
type Unlock struct {
	// Idle is how long a token stays unlocked without use, 1 m to 24 h; 0 is 30 min.
	Idle time.Duration `yaml:"idle"`
	// Max is how long it stays unlocked in all, 1 m to 24 h; 0 is 8 h.
	Max time.Duration `yaml:"max"`
}

// LockOn says which ways of leaving the computer lock all tokens. [Load] sets what
// the file leaves out: Suspend.
type LockOn struct {
	Suspend    bool `yaml:"suspend"`
	ScreenLock bool `yaml:"screenLock"`
}

// The default unlock window.
const (
	DefaultIdle = 30 * time.Minute
	DefaultMax  = 8 * time.Hour
)

// Load reads config.yaml. A missing file is the zero Config with the
// defaults. Unknown fields, and values out of range, are refused with
// their line; a file that others may change is refused ([home.ErrUnsafe]).
func Load(d home.Dirs) (Config, error) {
	path := d.ConfigFile()
	c := Config{LockOn: LockOn{Suspend: true}}
	b, err := home.ReadFile(path, home.MaxFile, nil)
	if errors.Is(err, fs.ErrNotExist) {
		c.defaults()
		return c, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	if err := c.parse(b); err != nil {
		return Config{}, hint.With(fmt.Errorf("configuration: %s: %w", path, err),
			"correct the file, or move it away to start afresh")
	}
	c.defaults()
	return c, nil
}

func (c *Config) parse(b []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil && !errors.Is(err, io.EOF) { // EOF: only comments
		var t *yaml.TypeError
		if errors.As(err, &t) {
			return errors.New(strings.ReplaceAll(strings.Join(t.Errors, "; "), " in type settings.", " in "))
		}
		return err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return c.validate()
}

func (c *Config) validate() error {
	if c.Pinentry != "" && !filepath.IsAbs(c.Pinentry) {
		return fmt.Errorf("pinentry %q is not an absolute path", c.Pinentry)
	}
	for _, w := range []struct {
		name string
		d    time.Duration
	}{{"unlock.idle", c.Unlock.Idle}, {"unlock.max", c.Unlock.Max}} {
		if w.d != 0 && (w.d < time.Minute || w.d > 24*time.Hour) {
			return fmt.Errorf("%s is %s: between 1m and 24h is possible", w.name, w.d)
		}
	}
	switch c.Renew {
	case "", RenewAuto, RenewNever:
	default:
		return fmt.Errorf("renew must be %s or %s, not %q", RenewAuto, RenewNever, string(c.Renew))
	}
	env := map[string]string{}
	for i, m := range c.Modules {
		if !filepath.IsAbs(m.Path) {
			return fmt.Errorf("modules[%d]: path %q is not absolute", i, m.Path)
		}
		if strings.ContainsRune(m.InitReserved, 0) {
			return fmt.Errorf("modules[%d]: initReserved cannot be passed on", i)
		}
		for k, v := range m.Env {
			if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
				return fmt.Errorf("modules[%d]: env %q cannot be set", i, k)
			}
			if old, ok := env[k]; ok && old != v {
				return fmt.Errorf("modules[%d]: env %s is given another value than before; all modules share one environment", i, k)
			}
			env[k] = v
		}
	}
	return nil
}

func (c *Config) defaults() {
	c.Renew = cmp.Or(c.Renew, RenewAuto)
	c.Follow = cmp.Or(c.Follow, DefaultFollow)
	if c.Unlock.Idle == 0 {
		c.Unlock.Idle = DefaultIdle
	}
	if c.Unlock.Max == 0 {
		c.Unlock.Max = DefaultMax
	}
}

// SetEnv sets what the modules need in the process's environment, by set
// ([os.Setenv]). It must happen before any library is loaded.
func (c Config) SetEnv(set func(key, value string) error) error {
	for _, m := range c.Modules {
		for k, v := range m.Env {
			if err := set(k, v); err != nil {
				return fmt.Errorf("module %s: set %s: %w", m.Path, k, err)
			}
		}
	}
	return nil
}

//go:build linux && cgo

package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// model is what must be true.
type model struct {
	enrolled map[string]*enrolled
	order    []string // the names, in the order of their keys
	// first is the kubeconfig before anything was done, and made what it was before
	// each change, in the order in which they were made.
	first   []byte
	made    [][]byte
	tickets int
}

// enrolled is one enrollment.
type enrolled struct {
	name, user string
	// policy is the last one that was confirmed; may are those that it may be while
	// nobody knows whether a change has come through.
	policy   string
	may      []string
	renewals int
}

// ofKind counts the enrollments whose names begin so.
func (m *model) ofKind(prefix string) (n int) {
	for name := range m.enrolled {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// user is a name that no other episode uses in the shared cluster.
func (e *episode) user(name string) string { return name + "-" + e.id }

// room tells whether the token has place for another key.
func (e *episode) room() bool { return len(e.model.enrolled) < e.token.places() }

// any picks an enrollment that fits; "" if there is none.
func (e *episode) any(r *rand.Rand, fits func(*enrolled) bool) string {
	n := r.IntN(1 << 16)
	var names []string
	for _, name := range e.model.order {
		if fits == nil || fits(e.model.enrolled[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[n%len(names)]
}

// config is the kubeconfig.
func (e *episode) config() ([]byte, error) { return os.ReadFile(e.Kubeconfig) }

// kubeconfig is what a kubeconfig says, as far as it matters here.
type kubeconfig struct {
	Current  string      `yaml:"current-context"`
	Clusters []yaml.Node `yaml:"clusters"`
	Contexts []yaml.Node `yaml:"contexts"`
	Users    []yaml.Node `yaml:"users"`
}

func parse(b []byte) (c kubeconfig, err error) {
	err = yaml.Unmarshal(b, &c)
	return c, err
}

func (e *episode) parsed() (kubeconfig, error) {
	b, err := e.config()
	if err != nil {
		return kubeconfig{}, err
	}
	return parse(b)
}

// names are those of entries, with each entry's text.
func names(entries []yaml.Node) (map[string]string, error) {
	all := map[string]string{}
	for _, n := range entries {
		var named struct{ Name string }
		if err := n.Decode(&named); err != nil {
			return nil, err
		}
		text, err := yaml.Marshal(&n)
		if err != nil {
			return nil, err
		}
		if _, twice := all[named.Name]; twice {
			return nil, fmt.Errorf("there are two entries called %s", named.Name)
		}
		all[named.Name] = string(text)
	}
	return all, nil
}

// entry tells whether the kubeconfig has the enrollment's context.
func (e *episode) entry(name string) bool {
	c, err := e.parsed()
	if err != nil {
		return false // compared elsewhere
	}
	all, err := names(c.Contexts)
	return err == nil && all[name] != ""
}

func (e *episode) hasEntry(name string, want bool) error {
	if e.entry(name) != want {
		return fmt.Errorf("the kubeconfig has an entry %s: %v", name, !want)
	}
	return nil
}

// formerConfig is what the kubeconfig was before the change that was made last; ok
// is false if there was none.
func (e *episode) formerConfig() (former []byte, ok bool) {
	if n := len(e.model.made); n > 0 {
		return e.model.made[n-1], true
	}
	return nil, false
}
